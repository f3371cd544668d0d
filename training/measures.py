"""What an evaluation holds, as lines that pages draw: base, trained and their paired difference for each measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training.models import Evaluation

MEASURES = (
    ("accuracy", "Accuracy", "share"),
    ("reward", "Reward", "number"),
    ("valid_share", "Valid actions", "share"),
)
MARGIN = 1.15
"""An axis ends this much beyond the furthest end that stands on it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One line of an evaluation: {mean, low, high, n, clusters} of base, trained and their paired difference.

    `reach` is where the difference's axis ends on either side of 0; `tone` is "ok" or "bad" where its whole interval
    lies on one side of 0, else "".
    """

    name: str
    title: str
    kind: str
    base: dict[str, Any] | None
    trained: dict[str, Any] | None
    difference: dict[str, Any] | None
    reach: float
    tone: str

    @property
    def left(self) -> float:
        return -self.reach


def measure_evaluation(evaluation: Evaluation) -> list[Measured]:
    """The measures that the evaluation holds, in the order of MEASURES."""
    lines = []
    for name, title, kind in MEASURES:
        base = evaluation.scores.get("base", {}).get(name)
        trained = evaluation.scores.get("trained", {}).get(name)
        difference = evaluation.differences.get(name)
        if base is None and trained is None:
            continue
        reach = find_reach(difference)
        lines.append(Measured(name, title, kind, base, trained, difference, reach, tone_of(difference)))
    return lines


def find_reach(*intervals: Mapping[str, float] | None) -> float:
    """Where an axis around 0 ends so that every interval fits on it; 1 without any."""
    ends = [abs(interval[end]) for interval in intervals if interval for end in ("low", "high")]
    return max(ends, default=1.0) * MARGIN or 1.0


def tone_of(difference: Mapping[str, float] | None) -> str:
    """ "ok" when the whole interval lies above 0, "bad" when it lies below, else ""."""
    if not difference:
        return ""
    return "ok" if difference["low"] > 0 else "bad" if difference["high"] < 0 else ""
