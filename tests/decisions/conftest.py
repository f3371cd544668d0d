"""Ways to say what a client sends, and to put decisions and feedback of any moment into the ledger."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from tools.factories import DecisionFactory, FeedbackFactory


def body(**fields: Any) -> dict[str, Any]:
    """A decision as a client sends it: FILER chose `travel` by a policy of its own."""
    return {"agent": "filer", "state": {"text": "a flight"}, "action": "travel", "policy_name": "outside"} | fields


def verdict(decision_id: Any, value: str = "confirmed", **fields: Any) -> dict[str, Any]:
    return {"metric": "verdict", "value": value, "decision_id": str(decision_id)} | fields


def wait_for_a_waiter() -> None:
    """Until somebody waits for a lock that is held here; half a minute at most."""
    for _ in range(3000):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")  # or who came since would not be seen
            cursor.execute(
                "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
                " WHERE NOT l.granted AND a.datname = current_database()"
            )
            if cursor.fetchone()[0]:
                return
        time.sleep(0.01)
    raise AssertionError("nobody waits")


def in_another_connection(work: Callable[[], Any]) -> Any:
    """For a thread: what it opened is closed again."""
    try:
        return work()
    finally:
        connection.close()


@pytest.fixture
def judged(agent: Any) -> Callable[..., Any]:
    """`judged("confirmed", …, minutes=0, **decision)`: a decision with its verdicts in this order, of `minutes` ago."""

    def make(*verdicts: str, minutes: float = 0, **fields: Any) -> Any:
        moment = timezone.now() - dt.timedelta(minutes=minutes)
        decision = DecisionFactory(agent=agent, observed_at=moment, **fields)
        for number, value in enumerate(verdicts):
            FeedbackFactory(decision=decision, value=value, observed_at=moment + dt.timedelta(microseconds=number))
        return decision

    return make
