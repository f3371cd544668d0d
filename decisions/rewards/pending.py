"""Rewards on request: everything that waits is calculated at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection
from django.utils import timezone

from decisions.models import RewardSpec
from decisions.rewards.calculate import count_pending, reckon_rewards


@dataclass(frozen=True, slots=True)
class Reckoned:
    """`processed` reward versions were written; `errors` of them hold a component that failed, and have no value."""

    processed: int
    errors: int


_FAILED = """
SELECT count(*) FROM decisions_reward
 WHERE spec_id = %s AND computed_at >= %s AND value IS NULL AND jsonb_path_exists(components, '$.*.error')
"""


def reckon_pending(specs: Iterable[RewardSpec]) -> Reckoned:
    """Everything that waits, however much; an agent's rewards in one transaction. Again at once: nothing."""
    processed = errors = 0
    for spec in specs:
        started = timezone.now()
        written = reckon_rewards(spec)
        processed += written
        if written:
            with connection.cursor() as cursor:
                cursor.execute(_FAILED, [spec.id, started])
                errors += int(cursor.fetchone()[0])
    return Reckoned(processed, errors)


def count_unreckoned(specs: Iterable[RewardSpec]) -> int:
    return sum(count_pending(spec) for spec in specs)
