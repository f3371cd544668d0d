"""Ways to say what a client sends, and to put decisions and feedback of any moment into the ledger."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from tests.factories import DecisionFactory, FeedbackFactory


def body(**fields: Any) -> dict[str, Any]:
    """A decision as a client sends it: FILER chose `travel` by a policy of its own."""
    return {"agent": "filer", "state": {"text": "a flight"}, "action": "travel", "policy_name": "outside"} | fields


def verdict(decision_id: Any, value: str = "confirmed", **fields: Any) -> dict[str, Any]:
    return {"metric": "verdict", "value": value, "decision_id": str(decision_id)} | fields


@pytest.fixture
def judged(agent: Any) -> Callable[..., Any]:
    """`judged("confirmed", …, minutes=0, **decision)`: a decision with one verdict a minute from `minutes` ago on."""

    def make(*verdicts: str, minutes: float = 0, **fields: Any) -> Any:
        moment = timezone.now() - dt.timedelta(minutes=minutes)
        decision = DecisionFactory(agent=agent, observed_at=moment, **fields)
        for number, value in enumerate(verdicts):
            FeedbackFactory(decision=decision, value=value, observed_at=moment + dt.timedelta(minutes=number))
        return decision

    return make
