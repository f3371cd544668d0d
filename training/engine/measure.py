"""Measures how fast this machine trains and scores with a base, on a few batches of the texts that are to be used.

    python -m training.engine.measure < QUESTION

QUESTION is one JSON object: `spec` (fields of a run's spec: `base`, `lora`, `optimiser`, `max_prompt_tokens`, …) and
`rows` (labelled). Prints one JSON object. `manage.py rehearse` asks before it starts with a pretrained base.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence

from training.engine.machine.launch import LIBRARIES

os.environ.update({**LIBRARIES, **os.environ})

import msgspec
import torch

from training.engine.data.reading import Batches
from training.engine.machine.hardware import autocast, choose_device, choose_precision, set_threads
from training.engine.methods.sft import answer_losses
from training.engine.models.actions import ActionScorer, hidden_size
from training.engine.models.loading import load_for_training, silence_progress_bars, trainable_parameters
from training.engine.rows.types import Labelled, prompts_of
from training.engine.spec.run_spec import RunSpec
from training.engine.updates.fit import Updates

BATCHES = 3
"""The first warms up and is not counted."""


class Rates(msgspec.Struct, frozen=True):
    """Rows a second in training and in scoring, and the seconds that loading the base takes; the processor seconds of
    a row in both, which other work on the machine changes less."""

    trained: float
    scored: float
    loading: float
    trained_cpu: float
    scored_cpu: float


def measure(spec: RunSpec, rows: Sequence[Labelled]) -> Rates:
    """Trains what the spec says would be trained, and keeps nothing of it."""
    device = choose_device()
    set_threads(spec.threads)
    began = time.monotonic()
    options = {option for row in rows for option in row.options} if spec.option_tokens else ()
    loaded = load_for_training(spec.base, spec.lora, device, freeze_embeddings=spec.freeze_embeddings, options=options)
    loading = time.monotonic() - began
    precision = choose_precision(device, hidden_size(loaded.model), spec.precision, loaded.model.config.model_type)
    scorer = ActionScorer(loaded.tokenizer, spec.max_prompt_tokens, device)
    prompts = scorer.encode(prompts_of(rows))
    size = spec.optimiser.batch_size
    batches = Batches([len(ids) for ids in prompts], size, spec.seed)
    updates = Updates(trainable_parameters(loaded.model), spec.optimiser, batches.per_epoch, precision)

    def train(batch: list[int]) -> None:
        with autocast(device, precision):
            answers = scorer.answer_ids([rows[i].answer for i in batch])
            some = [prompts[i] for i in batch], [rows[i] for i in batch]
            choice, text = answer_losses(loaded.model, scorer, *some, answers)
        updates.apply(choice / len(batch) + spec.weight_of_text * text / sum(map(len, answers)))

    @torch.no_grad()
    def score(batch: list[int]) -> None:
        with autocast(device, precision):
            log_p = scorer.log_probabilities(
                loaded.model, [prompts[i] for i in batch], [rows[i].options for i in batch]
            )
        log_p.sum().item()  # waits for the device

    order = [batches.at(step) for step in range(min(BATCHES, batches.per_epoch))]
    scored, scored_cpu = _rate(score, order)
    trained, trained_cpu = _rate(train, order)
    return Rates(trained, scored, loading, trained_cpu, scored_cpu)


def _rate(work: Callable[[list[int]], None], order: Sequence[list[int]]) -> tuple[float, float]:
    """Rows a second, and processor seconds a row, without the first batch where there are others."""
    first = min(1, len(order) - 1)
    for batch in order[:first]:
        work(batch)
    began, cpu = time.monotonic(), time.process_time()
    for batch in order[first:]:
        work(batch)
    rows = sum(len(batch) for batch in order[first:])
    return rows / max(time.monotonic() - began, 1e-9), (time.process_time() - cpu) / rows


def main() -> int:
    try:
        question = json.load(sys.stdin)
        rows = msgspec.convert(question["rows"], list[Labelled])
        spec = RunSpec.model_validate(question["spec"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:  # those of msgspec and pydantic are ValueErrors
        said = " ".join(str(error).split())
        sys.stderr.write(f"The question on standard input is not {{spec, rows}} as JSON: {said[:300]}\n")
        return 2
    silence_progress_bars()
    sys.stdout.write(msgspec.json.encode(measure(spec, rows)).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
