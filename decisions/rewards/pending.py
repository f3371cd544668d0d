"""Calculates every waiting reward at once, on request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection
from django.utils import timezone

from decisions.models import RewardSpec
from decisions.rewards.calculate import calculate_rewards, count_pending


@dataclass(frozen=True, slots=True)
class Calculated:
    """`processed` reward versions were written; `errors` of them hold a component that failed, and have no value."""

    processed: int
    errors: int


_FAILED = """
SELECT count(*) FROM decisions_reward
 WHERE spec_id = %s AND computed_at >= %s AND value IS NULL AND jsonb_path_exists(components, '$.*.error')
"""


def calculate_pending(specs: Iterable[RewardSpec]) -> Calculated:
    """Everything that waits, however much; an agent's rewards in one transaction. Again at once: nothing."""
    processed = errors = 0
    for spec in specs:
        started = timezone.now()
        written = calculate_rewards(spec)
        processed += written
        if written:
            with connection.cursor() as cursor:
                cursor.execute(_FAILED, [spec.id, started])
                errors += int(cursor.fetchone()[0])
    return Calculated(processed, errors)


def count_all_pending(specs: Iterable[RewardSpec]) -> int:
    return sum(count_pending(spec) for spec in specs)
