"""What a run's model answers to a few rows, before the training and now, as its page and the API show it.

The engine keeps one small file in its attempt's folder (training.engine.evaluation.watch). It holds what people wrote,
so nothing of it is stored in the database, and it goes with the rows that it is of (training.lineage.marks).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from django.conf import settings

from training.engine.spec.samples import SAMPLES_FILE, Asked, Reply, Samples
from training.models import TrainingRun


class SampleLine(NamedTuple):
    """A row with the model's reply before the training, and its newest."""

    asked: Asked
    before: Reply
    now: Reply


@dataclass(frozen=True, slots=True)
class ShownSamples:
    """`right`: how many of the replies are known to be right (before, now); None where nothing is known of any.
    `step`: of the newest replies."""

    held_out: bool
    step: int | None
    lines: list[SampleLine]
    right: tuple[int, int] | None


NO_SAMPLES = ShownSamples(held_out=False, step=None, lines=[], right=None)


def read_samples(run: TrainingRun) -> ShownSamples | None:
    """Of the newest attempt that has any; None where there are none, or rows of the run were erased."""
    if any(one is not None and one.marked_at is not None for one in (run.dataset, run.replay, run.heldout)):
        return None
    attempts = [path for path in (settings.RUNS / str(run.id)).glob("attempts/*") if path.name.isdigit()]
    for attempt in sorted(attempts, key=lambda path: int(path.name), reverse=True):
        try:
            found = msgspec.json.decode((attempt / SAMPLES_FILE).read_bytes(), type=Samples)
        except FileNotFoundError:
            continue
        lines = [SampleLine(*line) for line in zip(found.rows, found.first.replies, found.newest.replies, strict=True)]
        known = any(reply.right is not None for _, *replies in lines for reply in replies)
        right = (_count_right(found.first.replies), _count_right(found.newest.replies)) if known else None
        return ShownSamples(found.source == "heldout", found.newest.step, lines, right)
    return None


def _count_right(replies: list[Reply]) -> int:
    return sum(reply.right is True for reply in replies)
