"""The day of a key with a budget: what its calls have cost, and what those that are open may still cost.

A call reserves an estimate of its highest cost in the statement that opens it (`models_registry.calls.records`), and
whatever closes it settles that: the reservation goes, and the cost counts. So a row's lock is held for one statement,
and all processes share one count. A call is opened while what is spent and reserved lies below the budget: the last one
may go over it, by its own reservation at most.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import connection

from models_registry.errors import BudgetReserved, BudgetSpent
from workspaces.errors import FieldFault
from workspaces.models import ApiKey
from workspaces.storage.ids import uuid7, uuid7_bound
from workspaces.storage.prepared import prepared_cursor

DAY = dt.timedelta(days=1)
AGAIN_SECONDS = 5
"""After so long open calls may be over."""
_READ_DAY = "SELECT spent, reserved FROM models_registry_keyspend WHERE api_key_id = %s AND day = %s"
# The calls of a day lie together by their id; a client may choose an older one, and its call is then left out. So is
# one that is closed at this very moment, once a day.
_BEGIN_DAY = """
INSERT INTO models_registry_keyspend (id, workspace_id, api_key_id, day, spent, reserved)
SELECT %(id)s, %(workspace)s, %(key)s, %(day)s, coalesce(sum(c.cost), 0), 0
  FROM models_registry_call c
 WHERE c.workspace_id = %(workspace)s AND c.id >= %(first)s AND c.api_key_id = %(key)s AND c.opened_at >= %(since)s
    ON CONFLICT (api_key_id, day) DO NOTHING
"""
HELD = """
held AS (
UPDATE models_registry_keyspend s SET reserved = s.reserved + %(total)s::numeric
 WHERE s.api_key_id = %(key)s::uuid AND s.day = %(day)s::date
   AND s.spent + s.reserved + %(before_last)s::numeric < %(budget)s::numeric AND (SELECT holds FROM allowed)
   AND (SELECT count(*) FROM again) >= 0
RETURNING s.id
)
"""
"""SQL: the part of a WITH that reserves, where there is room; its parameters are those of `holding`. The day's row is
locked until the statement ends, and its newest values count. Calls that are there already are locked before it, in the
part `again`: whatever ends them locks them in this order, too."""
OVER = "c.api_key_id, (c.opened_at AT TIME ZONE 'UTC')::date AS day, c.state, c.cost, c.reserved"
"""SQL: what a statement that ends calls returns of them, for SETTLED."""
# A reservation is never given back twice, so `greatest` matters only where the day's row was made anew.
SETTLED = """
settled AS (
UPDATE models_registry_keyspend s
   SET spent = s.spent + sums.spent, reserved = greatest(s.reserved - sums.reserved, 0)
  FROM (SELECT api_key_id, day, sum(reserved) AS reserved,
               sum(coalesce(cost, CASE WHEN state = 'failed' THEN 0 ELSE reserved END)) AS spent
          FROM closed WHERE reserved > 0 OR cost > 0 GROUP BY 1, 2) AS sums
 WHERE s.api_key_id = sums.api_key_id AND s.day = sums.day
)
"""
"""SQL: the part of a WITH that settles the calls of its part `closed`. One whose cost is not known counts at what it
reserved, unless it failed."""
_SETTLE = """
UPDATE models_registry_keyspend SET reserved = greatest(reserved - %s, 0), spent = spent + %s
 WHERE api_key_id = %s AND day = %s
"""


@dataclass(frozen=True, slots=True)
class BudgetDay:
    """A key's costs since 00:00 UTC: what its calls have cost, and what open ones have reserved."""

    spent: Decimal
    reserved: Decimal


def read_budget_day(key: ApiKey, now: dt.datetime) -> BudgetDay:
    """Makes the day's row where it is missing, with what its calls have cost already."""
    since = midnight(now)
    with prepared_cursor() as cursor:
        cursor.execute(_READ_DAY, [key.id, since.date()])
        if (row := cursor.fetchone()) is None:
            _begin_day(key, since)
            cursor.execute(_READ_DAY, [key.id, since.date()])
            row = cursor.fetchone()
    return BudgetDay(*row)


def holding(key: ApiKey, reservations: Sequence[Decimal], now: dt.datetime) -> dict[str, Any]:
    """The parameters of HELD. Calls that are opened together count one after the other: all but the dearest have to
    find room below the budget."""
    total = sum(reservations, Decimal(0))
    return {
        "day": midnight(now).date(),
        "total": total,
        "before_last": total - max(reservations),
        "budget": key.spend_a_day,
    }


def settle_unopened(key: ApiKey, reserved: Decimal, now: dt.datetime, *, cost: Decimal) -> None:
    """Settles the reservations of questions whose ids have open calls already."""
    with connection.cursor() as cursor:
        cursor.execute(_SETTLE, [reserved, cost, key.id, midnight(now).date()])


def refuse_spent(key: ApiKey, now: dt.datetime, before_last: Decimal = Decimal(0)) -> None:
    """`before_last`: as of HELD. Raises BudgetSpent, and BudgetReserved where calls that are open leave no room."""
    if key.spend_a_day is None:
        return
    day = read_budget_day(key, now)
    if day.spent + day.reserved + before_last >= key.spend_a_day:
        raise no_room(key, day, now, before_last)


def no_room(
    key: ApiKey, day: BudgetDay, now: dt.datetime, before_last: Decimal = Decimal(0)
) -> BudgetSpent | BudgetReserved:
    budget = key.spend_a_day
    assert budget is not None
    renewed = midnight(now) + DAY
    later = f"after {renewed:%Y-%m-%d} 00:00 UTC"
    until_renewed = max(1, math.ceil((renewed - now).total_seconds()))
    held = f", {plain(day.reserved)} is reserved by open calls" if day.reserved else ""
    reason = f"{plain(day.spent)} of {plain(budget)} is spent since 00:00 UTC{held}"
    if day.spent >= budget:
        fault = FieldFault("spend_a_day", reason, f"raise the budget, or send the same request again {later}")
        return BudgetSpent("The budget of this key is spent for today.", wait=until_renewed, faults=[fault])
    if day.spent + before_last >= budget:
        reason = f"{reason}, and all but one of the items may cost {plain(before_last)}"
        fault = FieldFault("spend_a_day", reason, f"send fewer items, raise the budget, or send them again {later}")
        return BudgetSpent("The budget of this key has no room for these items.", wait=until_renewed, faults=[fault])
    fault = FieldFault("spend_a_day", reason, f"send the same request again when open calls are over, or {later}")
    wait = min(AGAIN_SECONDS, until_renewed)
    return BudgetReserved("The rest of this key's budget is reserved by open calls.", wait=wait, faults=[fault])


def plain(amount: Decimal) -> str:
    """Without zeros at the end."""
    return f"{amount.normalize():f}"


def midnight(now: dt.datetime) -> dt.datetime:
    return now.astimezone(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _begin_day(key: ApiKey, since: dt.datetime) -> None:
    parameters: dict[str, Any] = {
        "id": uuid7(),
        "workspace": key.workspace_id,
        "key": key.id,
        "day": since.date(),
        "first": uuid7_bound(since),
        "since": since,
    }
    with connection.cursor() as cursor:
        cursor.execute(_BEGIN_DAY, parameters)
