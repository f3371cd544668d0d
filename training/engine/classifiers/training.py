"""Trains a classifier from a run's rows: what its features are, what it learns from, and how sure it may be.

A fifth of the rows, by group, is kept back from first fits, to choose the penalty and the temperature; the last fit
learns from all.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import numpy as np

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.attempt.events import PREPARING, TRAINING
from training.engine.classifiers.encoders import Encoder, load_encoder
from training.engine.classifiers.fitting import MULTIPLES, Say, find_temperature, fit_head, gather, name_vectors
from training.engine.classifiers.policy import Classifier, Features
from training.engine.classifiers.words import learn_words
from training.engine.data.reading import RunData
from training.engine.rows.types import Labelled, Logged, prompts_of, right_or_wrong
from training.engine.spec.base_files import is_sentence_encoder
from training.engine.spec.run_spec import RunSpec, is_held_back

KEPT_BACK, FEWEST_KEPT_BACK = 0.2, 20
USUAL = 8.0
"""The multiple of the least penalty where too few rows are kept back to choose one."""
EMBEDDED_AT_ONCE = 512


def train_classifier(attempt: Attempt, data: RunData) -> tuple[Classifier, Outcome]:
    """Learns from labelled and logged rows alike. Raises Refused, Stopped."""
    rows, rewards = _rows_of(data)
    encoder = _load_encoder(attempt)
    settings = attempt.spec.classifier
    texts = [prompt.text for prompt in prompts_of(rows)]
    attempt.events.progress(0, 1, "reading the rows", PREPARING)
    words, counted = learn_words(texts) if encoder is None or settings.words_beside else (None, None)
    vectors = _embed(attempt, encoder, texts) if encoder is not None else None
    lessons = gather(Features(vectors, counted), rows, rewards)
    names = name_vectors(lessons, encoder.embed) if encoder is not None else None
    kept_back = np.array([is_held_back(group, None, KEPT_BACK) for group in lessons.groups])
    calibrated_on, steps = int(kept_back.sum()), 0
    tried: tuple[float, ...] = ()
    penalty, temperature = settings.penalty if settings.penalty is not None else USUAL, 1.0
    if calibrated_on >= FEWEST_KEPT_BACK and not kept_back.all():
        seen, held = lessons.take(np.flatnonzero(~kept_back)), lessons.take(np.flatnonzero(kept_back))
        tried = MULTIPLES if settings.penalty is None else (settings.penalty,)
        ends = []
        for number, multiple in enumerate(tried):
            first, taken = fit_head(attempt, seen, names, multiple, _saying(attempt, number, len(tried) + 1))
            steps += taken
            reached, cost = find_temperature(first, held, settings.feedback_noise)
            ends.append((cost, multiple, reached))
        _, penalty, temperature = min(ends)
    else:
        attempt.events.warn("too few rows to calibrate on: the classifier's probabilities are as it learnt them")
    model, more = fit_head(attempt, lessons, names, penalty, _saying(attempt, len(tried), len(tried) + 1))
    classifier = Classifier(model.head(temperature), words, encoder)
    metrics = {
        "temperature": temperature,
        "penalty": penalty,
        "calibrated_on": float(calibrated_on),
        "options": float(len(lessons.options)),
    }
    return classifier, Outcome(steps + more, len(rows), metrics)


def _rows_of(data: RunData) -> tuple[list[Labelled | Logged], list[float | None]]:
    labelled: list[Labelled | Logged] = [*data.labelled, *data.replay]
    judged = right_or_wrong(data.logged)
    return [*labelled, *(row for row, _ in judged)], [*(None for _ in labelled), *(right for _, right in judged)]


def _load_encoder(attempt: Attempt) -> Encoder | None:
    folder = find_encoder_folder(attempt.spec)
    return load_encoder(Path(folder), attempt.device) if folder is not None else None


def find_encoder_folder(spec: RunSpec) -> str | None:
    """The encoder that the settings name, the base, or what the classifier lies over that is the base; None for words
    alone, also where the base is a language model, with which the classifier is only compared."""
    if spec.classifier.encoder is not None:
        return spec.classifier.encoder
    path = spec.base.path
    return path if path is not None and is_sentence_encoder(Path(path)) else None


def _embed(attempt: Attempt, encoder: Encoder, texts: list[str]) -> np.ndarray:
    """(n, d), a part at a time, so that the run shows progress and can be stopped."""
    parts = []
    for begin in range(0, len(texts), EMBEDDED_AT_ONCE):
        attempt.stop.check()
        attempt.events.progress(begin, len(texts), "reading the rows with the encoder", PREPARING)
        parts.append(encoder.embed(texts[begin : begin + EMBEDDED_AT_ONCE]))
    return np.concatenate(parts)


def _saying(attempt: Attempt, number: int, fits: int) -> Say:
    """Progress of one of so many fits, which take the same time each."""
    began = time.monotonic()

    def say(step: int, total: int, loss: float) -> None:
        attempt.stop.check(number * total + step)
        if attempt.events.due() or step == total:
            seconds = time.monotonic() - began
            done = number * total + step
            attempt.events.metric(done, {"loss": loss})
            message = "fitting the classifier" if number == fits - 1 else "choosing the penalty"
            attempt.events.progress(done, fits * total, f"{message}, {seconds:.0f} s", TRAINING)

    return say


def weights_hash(classifier: Classifier) -> str:
    """SHA-256 over name, type, shape and bytes of what was learnt, and the columns."""
    digest = hashlib.sha256("\n".join(classifier.head.columns).encode())
    for name, tensor in sorted(classifier.tensors().items()):
        digest.update(f"{name} {tensor.dtype} {tensor.shape}".encode())
        digest.update(np.ascontiguousarray(tensor).tobytes())
    return digest.hexdigest()
