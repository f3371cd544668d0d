"""Calls of the gateway: opened before anything is asked, closed with the decision, abandoned when a process was killed.

`decisions.gateway` and the gateway of chats write them; `close_abandoned` is the sweeper's, `delete_old_calls` the
daily removal's.
"""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
from django.db import connection

from models_registry.calls.budgets import (
    HELD,
    OVER,
    SETTLED,
    holding,
    no_room,
    read_budget_day,
    refuse_spent,
    settle_unopened,
)
from models_registry.models import Call, CallKind, CallState, KeySpend, ModelVersion
from workspaces.access.actors import Actor
from workspaces.models import ApiKey
from workspaces.storage.clock import database_now
from workspaces.storage.ids import uuid7_bound
from workspaces.storage.prepared import prepared_cursor

NEWEST = dt.timedelta(hours=1)
"""How far ahead of the server's clock the id of a decision may be."""
# A call that is lost with the whole database was not answered either, so its commit need not wait for the disk.
_INSERT = """
INSERT INTO models_registry_call AS c
  (id, workspace_id, api_key_id, registered_model_id, kind, state, assigned_id, fallback, error, cached, reserved,
   opened_at)
SELECT asked.id, %(workspace)s::uuid, %(key)s::uuid, asked.model, %(kind)s::text, 'open', asked.version, '', '', false,
       asked.reserved, %(now)s::timestamptz
  FROM json_to_recordset(%(openings)s::json) AS asked(id uuid, model uuid, version uuid, reserved numeric),
       (SELECT set_config('synchronous_commit', 'off', true)) AS quick, {allowed}
    ON CONFLICT (id) DO UPDATE
   SET state = 'open', assigned_id = excluded.assigned_id, served_id = NULL, backend_id = NULL, fallback = '',
       error = '', unusable_answers = 0, tokens_in = NULL, tokens_out = NULL, cost = NULL, reserved = excluded.reserved,
       opened_at = excluded.opened_at, first_byte_at = NULL, closed_at = NULL
 WHERE c.workspace_id = excluded.workspace_id AND c.state IN ('failed', 'left', 'abandoned')
"""
_OPEN = _INSERT.format(allowed="(SELECT 1 WHERE {condition}) AS allowed") + "RETURNING c.id"
_OPEN_WITHIN_BUDGET = f"""
WITH allowed AS MATERIALIZED (SELECT ({{condition}}) AS holds), again AS MATERIALIZED (
SELECT c.id FROM models_registry_call c
 WHERE c.id = ANY(ARRAY(SELECT (one ->> 'id')::uuid FROM json_array_elements(%(openings)s::json) AS one))
 ORDER BY c.id FOR UPDATE
), {HELD}, opened AS ({_INSERT.format(allowed="held")}
RETURNING c.id)
SELECT (SELECT holds FROM allowed), EXISTS (SELECT FROM held), array(SELECT id FROM opened)
"""  # noqa: S608 - names of our own
TRIES = 3
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.32
"""Seconds between two looks at calls that somebody else asks about."""
LONGEST, BATCH = 500, 5_000
# Its key's day is settled, where the key has a budget (models_registry.calls.budgets). The array makes
# PostgreSQL take the primary key, in a plan that it keeps: of rows in JSON it expects a hundred. `closed_at` says the
# same as the state, by which it would read the index of all open calls.
CLOSED = f"""
closed AS (
UPDATE models_registry_call c
   SET state = ended.state, served_id = ended.served, backend_id = ended.backend,
       fallback = left(ended.fallback, {LONGEST}), error = left(ended.error, {LONGEST}),
       unusable_answers = ended.unusable, cached = ended.cached, tokens_in = ended.tokens_in,
       tokens_out = ended.tokens_out, cost = ended.cost,
       first_byte_at = coalesce(c.first_byte_at, ended.first_byte_at), closed_at = %(closed_at)s::timestamptz
  FROM json_to_recordset(%(endings)s::json)
    AS ended(id uuid, state text, served uuid, backend uuid, fallback text, error text, unusable int, cached bool,
             tokens_in int, tokens_out int, cost numeric, first_byte_at timestamptz)
 WHERE c.id = ANY(ARRAY(SELECT (one ->> 'id')::uuid FROM json_array_elements(%(endings)s::json) AS one))
   AND c.id = ended.id AND c.workspace_id = %(workspace)s::uuid AND c.closed_at IS NULL
RETURNING {OVER}
), {SETTLED}
"""  # noqa: S608 - a number of our own
"""SQL: the parts of a WITH that close calls, for a statement that writes their decisions as well; its parameters are
those of `closing`."""
_CLOSE = f"WITH {CLOSED} SELECT count(*) FROM closed"  # noqa: S608
# Calls that a living process closes at this moment are left to it.
_ABANDON = f"""
WITH closed AS (
UPDATE models_registry_call c SET state = 'abandoned', closed_at = %(now)s
 WHERE c.id IN (SELECT id FROM models_registry_call
                 WHERE state = 'open' AND {{which}} FOR UPDATE SKIP LOCKED)
RETURNING {OVER}
), {SETTLED} SELECT count(*) FROM closed
"""  # noqa: S608 - names of our own
_ABANDON_OLD = _ABANDON.format(which="opened_at < %(before)s")
_ABANDON_THESE = _ABANDON.format(which="id = ANY(%(ids)s)")


Condition = tuple[str, Mapping[str, Any]]
"""SQL, and its parameters."""
ALWAYS: Condition = ("true", {})


@dataclass(frozen=True, slots=True)
class Opening:
    """A question: the id that its decision will have, the version that should answer it, and what it may cost at most,
    which matters for a key with a budget."""

    id: uuid.UUID
    assigned: ModelVersion
    reserved: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a call ended. `fallback`: why another version or server than the first answered; "" where none did.
    `unusable`: how many answers of the version assigned could not be used."""

    id: uuid.UUID
    state: str
    served: uuid.UUID | None = None
    backend: uuid.UUID | None = None
    fallback: str = ""
    error: str = ""
    unusable: int = 0
    cached: bool = False
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: Decimal | None = None
    first_byte_at: dt.datetime | None = None


def open_calls(
    *,
    by: Actor,
    kind: str,
    openings: Sequence[Opening],
    now: dt.datetime,
    condition: Condition = ALWAYS,
) -> int:
    """One statement, outside any transaction, which reserves what they may cost. A call that failed before is opened
    again; one that was answered, or is being answered, stays. Returns how many it has opened: none where the
    `condition` does not hold. Raises BudgetSpent, BudgetReserved."""
    return len(_open(by, kind, openings, now, condition))


def claim_calls(*, by: Actor, openings: Sequence[Opening], now: dt.datetime, again: bool) -> frozenset[uuid.UUID]:
    """Opens the calls of decisions, as `open_calls` does, and returns the ids that this caller asks about. For a key
    with a budget those are left out that somebody asks about at this moment, so that each decision reserves once;
    `again`: they are asked about, too, and count at once. Raises BudgetSpent, BudgetReserved."""
    opened = _open(by, CallKind.DECIDE, openings, now)
    asked = frozenset(one.id for one in openings)
    if by.key is None or by.key.spend_a_day is None:
        return asked
    if again and (others := [one.reserved for one in openings if one.id not in opened]):
        settle_unopened(by.key, Decimal(0), now, cost=sum(others, Decimal(0)))
    return asked if again else frozenset(opened)


def _open(
    by: Actor, kind: str, openings: Sequence[Opening], now: dt.datetime, condition: Condition = ALWAYS
) -> list[uuid.UUID]:
    if not openings:
        return []
    holds, values = condition
    budgeted = by.key is not None and by.key.spend_a_day is not None
    parameters = {
        **values,
        "workspace": by.workspace.id,
        "key": by.key.id if by.key is not None else None,
        "kind": kind,
        "now": now,
        "openings": _json(
            {
                "id": one.id,
                "model": one.assigned.registered_model_id,
                "version": one.assigned.id,
                "reserved": one.reserved if budgeted else 0,
            }
            for one in openings
        ),
    }
    if by.key is not None and budgeted:
        return _open_within_budget(by.key, openings, now, holds, parameters)
    with prepared_cursor() as cursor:
        cursor.execute(_OPEN.format(condition=holds), parameters)
        return [row[0] for row in cursor.fetchall()]


def _open_within_budget(
    key: ApiKey, openings: Sequence[Opening], now: dt.datetime, holds: str, parameters: Mapping[str, Any]
) -> list[uuid.UUID]:
    held = holding(key, [one.reserved for one in openings], now)
    for _ in range(TRIES):
        with prepared_cursor() as cursor:
            cursor.execute(_OPEN_WITHIN_BUDGET.format(condition=holds), {**parameters, **held})
            is_allowed, is_held, opened = cursor.fetchone()
        if not is_allowed:
            return []
        if is_held:
            if left_out := sum((one.reserved for one in openings if one.id not in opened), Decimal(0)):
                settle_unopened(key, left_out, now, cost=Decimal(0))
            return list(opened)
        refuse_spent(key, now, held["before_last"])  # else this was the day's first, or calls ended at this moment
    raise no_room(key, read_budget_day(key, now), now, held["before_last"])


def wait_until_over(ids: Iterable[uuid.UUID], *, until: float) -> None:
    """Returns when none of these calls is open, or at that second of the monotonic clock."""
    waiting, pause = list(ids), FIRST_PAUSE
    while Call.objects.filter(id__in=waiting, state=CallState.OPEN).exists() and time.monotonic() < until:
        time.sleep(max(0.0, min(pause, until - time.monotonic())))
        pause = min(2 * pause, LONGEST_PAUSE)


def close_calls(*, by: Actor, endings: Sequence[Ending], now: dt.datetime) -> int:
    """One statement; in the decision's transaction where there is one. Returns how many were still open."""
    if not endings:
        return 0
    with prepared_cursor() as cursor:
        cursor.execute(_CLOSE, closing(by=by, endings=endings, now=now))
        return int(cursor.fetchone()[0])


def closing(*, by: Actor, endings: Sequence[Ending], now: dt.datetime) -> dict[str, Any]:
    """The parameters of CLOSED."""
    return {"workspace": by.workspace.id, "closed_at": now, "endings": _json(endings)}


def _json(rows: Iterable[Any]) -> str:
    return msgspec.json.encode(list(rows)).decode()


def delete_old_calls(before: dt.datetime) -> Iterator[int]:
    """Calls that were opened before then and are over, and what keys spent in their days; yields how many calls went in
    each batch. Their decisions stay."""
    # A call's id is as young as its decision may be, so by the primary key alone the young ones need not be read.
    youngest = uuid7_bound(before + NEWEST)
    old = Call.objects.filter(id__lt=youngest, opened_at__lt=before).exclude(state=CallState.OPEN)
    while ids := list(old.order_by("id").values_list("id", flat=True)[:BATCH]):
        Call.objects.filter(id__in=ids).delete()
        yield len(ids)
    KeySpend.objects.filter(day__lt=before.date()).delete()


def close_abandoned(*, older_than: dt.timedelta, now: dt.datetime | None = None) -> int:
    """Marks calls that have been open for so long: the process that answered them was killed. Returns how many."""
    moment = now or database_now()
    with connection.cursor() as cursor:
        cursor.execute(_ABANDON_OLD, {"now": moment, "before": moment - older_than})
        return int(cursor.fetchone()[0])


def abandon_calls(ids: Sequence[uuid.UUID]) -> int:
    """Marks those of them that are still open: the process that answers them ends. Returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(_ABANDON_THESE, {"now": database_now(), "ids": list(ids)})
        return int(cursor.fetchone()[0])
