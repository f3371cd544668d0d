"""Calculates every waiting reward at once, for the notes app and `manage.py calculate_rewards`."""

from __future__ import annotations

from collections.abc import Iterable

from decisions.models import RewardSpec
from decisions.rewards.calculate import Calculated, calculate_rewards, count_pending


def calculate_pending(specs: Iterable[RewardSpec]) -> Calculated:
    """Everything that waits, however much. Again at once: nothing."""
    return sum((calculate_rewards(spec) for spec in specs), Calculated())


def count_all_pending(specs: Iterable[RewardSpec]) -> int:
    return sum(count_pending(spec) for spec in specs)
