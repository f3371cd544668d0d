"""How long an item should take, and which feedback its end gives to its decisions. PURE."""

from __future__ import annotations

from collections.abc import Mapping

EXPECTED_MINUTES: Mapping[str, float] = {"EXPEDITE": 120, "PROJECT": 480, "HABIT": 60, "HOME": 180}
"""Minutes that an item of a swimlane is expected to take."""
PRIORITY_FACTORS: Mapping[str, float] = {"HIGH": 0.8, "MEDIUM": 1.0, "LOW": 1.2}

COMPLETION, CYCLES, TIME_RATIO = "completion", "cycles", "time_ratio"
BLOCKED, ABANDONED, ALIGNMENT = "blocked", "abandoned", "alignment"
METRICS = (COMPLETION, CYCLES, TIME_RATIO, BLOCKED, ABANDONED, ALIGNMENT)
"""Metrics of the feedback that an item's end becomes. `completion` is DONE or COLD_STORAGE, `cycles` counts how often
the item was opened again, `time_ratio` is minutes spent over expected, `alignment` lies in 0 to 1, the others are
true or false."""


def expected_minutes(swimlane: str, priority: str) -> float | None:
    """None for a swimlane that has no expectation; a priority that is not known counts as MEDIUM."""
    minutes = EXPECTED_MINUTES.get(swimlane)
    return None if minutes is None else minutes * PRIORITY_FACTORS.get(priority, 1.0)
