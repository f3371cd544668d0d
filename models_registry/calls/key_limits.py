"""What an API key may ask, and what its calls may cost in a day (UTC). Whatever opens calls asks `refuse_over_limits`.

The rate is limited where requests come in (`workspaces.http.throttling`). A budget is looked at before a call is
opened, and what a call costs is known when it is closed: calls that are open at the same time may together go over it.
A call without a known cost counts as 0.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import Count, Q, Sum

from models_registry.errors import AgentNotAllowed, BudgetSpent
from models_registry.models import Call, CallState, KeySpend
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault
from workspaces.models import ApiKey
from workspaces.storage.ids import uuid7, uuid7_bound
from workspaces.storage.prepared import prepared_cursor

DAY = dt.timedelta(days=1)
_SPENT = "SELECT spent FROM models_registry_keyspend WHERE api_key_id = %s AND day = %s"
# The calls of a day lie together by their id; a client may choose an older one, and its call is then left out. So is
# one that is closed at this very moment, once a day.
_BEGIN_DAY = """
INSERT INTO models_registry_keyspend (id, workspace_id, api_key_id, day, spent)
SELECT %(id)s, %(workspace)s, %(key)s, %(day)s, coalesce(sum(c.cost), 0)
  FROM models_registry_call c
 WHERE c.workspace_id = %(workspace)s AND c.id >= %(first)s AND c.api_key_id = %(key)s AND c.opened_at >= %(since)s
    ON CONFLICT (api_key_id, day) DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class KeyUse:
    """Calls of a key since 00:00 UTC. `unpriced`: answered ones whose cost is not known, which count as 0."""

    calls: int
    unpriced: int
    spent: Decimal


def refuse_over_limits(*, by: Actor, agent: str, now: dt.datetime) -> None:
    """For a question to this agent (its slug). People, jobs and the internal key have no limits. Raises
    AgentNotAllowed, BudgetSpent."""
    refuse_agent(by=by, agent=agent)
    key = by.key
    if key is None or key.spend_a_day is None or (spent := _spent_today(key, now)) < key.spend_a_day:
        return
    tomorrow = _midnight(now) + DAY
    reason = f"{plain(spent)} of {plain(key.spend_a_day)} is spent since 00:00 UTC"
    advice = f"raise the budget, or send the same request again after {tomorrow:%Y-%m-%d} 00:00 UTC"
    fault = FieldFault("spend_a_day", reason, advice)
    raise BudgetSpent(
        "The budget of this key is spent for today.",
        wait=max(1, math.ceil((tomorrow - now).total_seconds())),
        faults=[fault],
    )


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
    since = _midnight(now)
    found = Call.objects.filter(
        workspace_id=key.workspace_id, id__gte=uuid7_bound(since), api_key=key, opened_at__gte=since
    ).aggregate(
        calls=Count("id"),
        unpriced=Count("id", filter=Q(state__in=(CallState.ANSWERED, CallState.LEFT), cost=None)),
        spent=Sum("cost"),
    )
    counted = KeySpend.objects.filter(api_key=key, day=since.date()).values_list("spent", flat=True).first()
    spent = counted if counted is not None else found["spent"] or Decimal(0)
    return KeyUse(found["calls"], found["unpriced"], spent)


def plain(amount: Decimal) -> str:
    """Without zeros at the end."""
    return f"{amount.normalize():f}"


def _midnight(now: dt.datetime) -> dt.datetime:
    return now.astimezone(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _spent_today(key: ApiKey, now: dt.datetime) -> Decimal:
    since = _midnight(now)
    with prepared_cursor() as cursor:
        cursor.execute(_SPENT, [key.id, since.date()])
        if (row := cursor.fetchone()) is None:
            _begin_day(key, since)
            cursor.execute(_SPENT, [key.id, since.date()])
            row = cursor.fetchone()
    spent: Decimal = row[0]
    return spent


def _begin_day(key: ApiKey, since: dt.datetime) -> None:
    """The day's row, with what its calls have cost already where the budget is younger than they are."""
    asked: dict[str, Any] = {
        "id": uuid7(),
        "workspace": key.workspace_id,
        "key": key.id,
        "day": since.date(),
        "first": uuid7_bound(since),
        "since": since,
    }
    with connection.cursor() as cursor:
        cursor.execute(_BEGIN_DAY, asked)
