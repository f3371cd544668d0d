"""What an API key may ask, and what its calls may cost in a day (UTC). Whatever opens calls asks `refuse_over_limits`.

The rate is limited where requests come in (`workspaces.http.throttling`). A budget is looked at here before anything is
made of a request, and held to where its call is opened (`models_registry.calls.budgets`).
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Count, Q, Sum

from models_registry.calls.budgets import midnight, refuse_spent
from models_registry.errors import AgentNotAllowed
from models_registry.models import Call, CallState, KeySpend
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault
from workspaces.models import ApiKey
from workspaces.storage.ids import uuid7_bound


@dataclass(frozen=True, slots=True)
class KeyUse:
    """Calls of a key since 00:00 UTC. `unpriced`: answered ones whose cost is not known, which count at what they
    reserved. `reserved`: what those that are open may cost."""

    calls: int
    unpriced: int
    spent: Decimal
    reserved: Decimal = Decimal(0)


def refuse_over_limits(*, by: Actor, agent: str, now: dt.datetime) -> None:
    """For a question to this agent (its slug). People, jobs and the internal key have no limits. Raises
    AgentNotAllowed, BudgetSpent, BudgetReserved."""
    refuse_agent(by=by, agent=agent)
    if by.key is not None:
        refuse_spent(by.key, now)


def refuse_agent(*, by: Actor, agent: str) -> None:
    """Raises AgentNotAllowed."""
    if not may_ask(by=by, agent=agent):
        assert by.key is not None
        fault = FieldFault("agent", f"{agent!r} is not among the agents of this key", ", ".join(by.key.agents))
        raise AgentNotAllowed("This key may not ask this agent.", faults=[fault])


def may_ask(*, by: Actor, agent: str) -> bool:
    return by.key is None or not by.key.agents or agent in by.key.agents


def measure_key_use(key: ApiKey, *, now: dt.datetime) -> KeyUse:
    """One query over the calls of the workspace's day."""
    since = midnight(now)
    found = Call.objects.filter(
        workspace_id=key.workspace_id, id__gte=uuid7_bound(since), api_key=key, opened_at__gte=since
    ).aggregate(
        calls=Count("id"),
        unpriced=Count("id", filter=Q(state__in=(CallState.ANSWERED, CallState.LEFT), cost=None)),
        spent=Sum("cost"),
    )
    day = KeySpend.objects.filter(api_key=key, day=since.date()).first()
    if day is None:
        return KeyUse(found["calls"], found["unpriced"], found["spent"] or Decimal(0))
    return KeyUse(found["calls"], found["unpriced"], day.spent, day.reserved)
