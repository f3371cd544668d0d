"""Scores the options of many items in as few forward passes as their models allow.

Called by the model thread with the items that came together, for any mixture of models. A fault of one item is that
item's answer and does not affect the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from training.engine.models.actions import OptionError
from training.engine.rows.types import Prompt
from training.engine.serving.faults import Fault
from training.engine.serving.pool import LoadedBase, ModelPool

ROWS_PER_FORWARD = 64


@dataclass(frozen=True, slots=True)
class Question:
    """One decision to score. `model` is the digest of a base, an adapter or a classifier; of too long a prompt the
    middle is cut."""

    model: str
    prompt: Prompt
    options: tuple[str, ...]
    max_prompt_tokens: int


Answer = list[float] | Fault
"""Probabilities in the order of the options, summing to 1, or why there are none."""


def score(pool: ModelPool, questions: Sequence[Question]) -> list[Answer]:
    """Answers in the order of the questions. Never raises Fault."""
    answers: list[Answer] = [Fault("internal_error", "not scored")] * len(questions)
    by_base: dict[str, list[int]] = defaultdict(list)
    by_classifier: dict[str, list[int]] = defaultdict(list)
    for index, question in enumerate(questions):
        try:
            if pool.find_classifier(question.model) is not None:
                by_classifier[question.model].append(index)
            else:
                by_base[pool.base_of(question.model)].append(index)
        except Fault as fault:
            answers[index] = fault
    for digest, indices in by_classifier.items():
        _score_by_classifier(pool, digest, questions, indices, answers)
    for digest, indices in by_base.items():
        try:
            base = pool.base(digest)
        except Fault as fault:
            for index in indices:
                answers[index] = fault
            continue
        for part in _parts(pool, digest, questions, indices):
            _score_part(pool, base, questions, part, answers)
    return answers


def _score_by_classifier(
    pool: ModelPool, digest: str, questions: Sequence[Question], indices: Sequence[int], answers: list[Answer]
) -> None:
    try:
        classifier = pool.classifiers.get(pool.store.find_served(digest))
    except Fault as fault:
        for index in indices:
            answers[index] = fault
        return
    prompts = [questions[index].prompt for index in indices]
    scored = classifier.log_probabilities(prompts, [questions[index].options for index in indices])
    for index, log_p in zip(indices, scored, strict=True):
        answers[index] = _normalise(digest, torch.from_numpy(log_p).double().exp().tolist())


def _parts(
    pool: ModelPool, base: str, questions: Sequence[Question], indices: Sequence[int]
) -> Iterator[Sequence[int]]:
    """Splits so that no part needs more adapters than fit in memory together."""
    part: list[int] = []
    adapters: set[str] = set()
    for index in sorted(indices, key=lambda index: questions[index].model):
        model = questions[index].model
        if model != base and model not in adapters and len(adapters) == pool.max_adapters:
            yield part
            part, adapters = [], set()
        part.append(index)
        if model != base:
            adapters.add(model)
    yield part


def _score_part(
    pool: ModelPool, base: LoadedBase, questions: Sequence[Question], part: Sequence[int], answers: list[Answer]
) -> None:
    faults = pool.require_adapters(
        base, (questions[index].model for index in part if questions[index].model != base.artifact.digest)
    )
    encoded, too_long = _encode(base, questions, part)
    ready: list[int] = []
    for index in part:
        question = questions[index]
        fault = faults.get(question.model) or too_long.get(index) or _fault_of(base, question, len(encoded[index]))
        if fault is None:
            ready.append(index)
        else:
            answers[index] = fault
    ready.sort(key=lambda index: len(encoded[index]))  # rows of like length waste the least padding
    for start in range(0, len(ready), ROWS_PER_FORWARD):
        _forward(base, questions, ready[start : start + ROWS_PER_FORWARD], encoded, answers)


def _encode(
    base: LoadedBase, questions: Sequence[Question], part: Sequence[int]
) -> tuple[dict[int, list[int]], dict[int, Fault]]:
    """Token ids by place, and the faults of those whose system prompt leaves no room for what is asked."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for index in part:
        by_length[questions[index].max_prompt_tokens].append(index)
    encoded: dict[int, list[int]] = {}
    faults: dict[int, Fault] = {}
    for length, indices in by_length.items():
        encoder = base.encoder(length)
        for index in indices:
            if found := encoder.find_faults([questions[index].prompt]):
                faults[index] = Fault("context_length_exceeded", found[0], "system")
        fitting = [index for index in indices if index not in faults]
        ids = encoder.encode([questions[index].prompt for index in fitting])
        encoded.update(zip(fitting, ids, strict=True))
    return encoded, faults


def _fault_of(base: LoadedBase, question: Question, prompt_tokens: int) -> Fault | None:
    try:
        trie = base.scorer.trie(question.options)
    except OptionError as error:
        return Fault("options_ambiguous", str(error), "options")
    deepest = int(trie.depths.max()) + 1 if trie.size else 0
    if prompt_tokens + deepest > base.positions:
        return Fault(
            "context_length_exceeded",
            f"the prompt has {prompt_tokens} tokens and its options up to {deepest}; the model reads {base.positions}",
            "prompt",
        )
    return None


def _forward(
    base: LoadedBase,
    questions: Sequence[Question],
    rows: Sequence[int],
    encoded: dict[int, list[int]],
    answers: list[Answer],
) -> None:
    with torch.inference_mode():
        log_p = base.scorer.log_probabilities(
            base.model,
            [encoded[index] for index in rows],
            [questions[index].options for index in rows],
            base.rows([questions[index].model for index in rows]),
        )
    for index, row in zip(rows, log_p.double().exp().tolist(), strict=True):
        answers[index] = _normalise(questions[index].model, row[: len(questions[index].options)])


def _normalise(model: str, probabilities: Sequence[float]) -> Answer:
    """Divides them by their sum, which rounding has moved from 1; a fault where they are none."""
    total = sum(probabilities)
    if 0.5 < total < 1.5:  # false for NaN as well
        return [probability / total for probability in probabilities]
    return Fault("artifact_unusable", f"model {model} gives no probabilities", "model")
