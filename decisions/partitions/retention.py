"""Drops whole old months of the ledger by dropping their partitions; an audit row in each workspace counts what went.

A month goes with everything that is partitioned like it (feedback, rewards, steps), in one transaction, together with
rows of that time in the default partitions (imported, or sent later) and what is not partitioned: labels, skips, places
in labelling queues and answers of shadows about dropped decisions. Datasets keep the ids of their decisions;
experiments' observations, episodes, their labels and places in queues, and feedback on an episode or a unit stay.
"""

from __future__ import annotations

import datetime as dt
import re
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import psycopg
from django.db import OperationalError, connection, transaction

from decisions.partitions.partitioning import PARTITIONED, month_start, partition_name
from workspaces.access.actors import system
from workspaces.access.services import record_audit
from workspaces.models import Workspace
from workspaces.storage.ids import uuid7_bound

EARLIER = "earlier"
# While a drop waits for its locks, other statements wait behind it. Four such waits stay under the second after which
# PostgreSQL looks for deadlocks, so that the drop always gives way, and tries again.
LOCK_MILLISECONDS = 200
LOCK_TRIES = 40
LOCK_PAUSE_SECONDS = 0.5
WITHOUT_MONTH = {
    # Before the items, which say whether a place is a decision's.
    "decisions_reservation": "item_id IN (SELECT id FROM decisions_queueitem WHERE decision_id < %s)",
    **dict.fromkeys(
        (
            *("decisions_queueitem", "decisions_label", "decisions_skip"),
            *("decisions_labelsuggestion", "decisions_measurementdue", "decisions_rewarddue", "decisions_shadowanswer"),
        ),
        "decision_id < %s",
    ),
}
"""Tables of what hangs on a decision and is not partitioned like it, in the order in which it goes, and which rows."""
Counts = dict[uuid.UUID, Counter[str]]
_MONTH = re.compile(r"_(\d{4})_(\d{2})$")


@dataclass(frozen=True, slots=True)
class Dropped:
    """`month` is 2026-03, or `earlier` for rows that lay outside of their months; `rows` a table's name → how many."""

    month: str
    rows: dict[str, int]


def oldest_kept(now: dt.datetime, months: int) -> dt.datetime:
    """The first instant that stays: the running month and `months` whole ones before it. Raises ValueError below 1."""
    if months < 1:
        raise ValueError(f"{months} months: at least 1 is kept")
    return month_start(now, -months)


def drop_old_months(
    *, now: dt.datetime, months: int, dry_run: bool = False, before_each: Callable[[], object] = lambda: None
) -> list[Dropped]:
    """Oldest first. A month that cannot be locked in time raises OperationalError; those before it are gone by then.

    With `dry_run` nothing changes, and the answer is what would go. `before_each` hears of each month.
    """
    border = oldest_kept(now, months)
    dropped = []
    for month in _old_months(border):
        before_each()
        dropped.append(_drop_month(month, dry_run))
    before_each()
    dropped.append(_delete_strays(border, dry_run))
    return [entry for entry in dropped if entry.month != EARLIER or any(entry.rows.values())]


def _partitions() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = ANY(%s::regclass[])",
            [list(PARTITIONED)],
        )
        return {name for (name,) in cursor.fetchall()}


def _old_months(border: dt.datetime) -> list[dt.datetime]:
    matches = filter(None, map(_MONTH.search, _partitions()))
    months = {dt.datetime(int(match[1]), int(match[2]), 1, tzinfo=dt.UTC) for match in matches}
    return sorted(month for month in months if month < border)


def _drop_month(month: dt.datetime, dry_run: bool) -> Dropped:
    there = _partitions()
    tables = {table: name for table in PARTITIONED if (name := partition_name(table, month)) in there}
    # Before the locks, because counting millions of rows would block everybody. Later writes into so old a month are
    # not counted.
    counts: Counts = defaultdict(Counter)
    with connection.cursor() as cursor:
        for table, name in tables.items():
            cursor.execute(f'SELECT workspace_id, count(*) FROM "{name}" GROUP BY 1')  # noqa: S608 - from the catalogue
            for workspace, count in cursor.fetchall():
                counts[workspace][table] = count
    entry = Dropped(f"{month:%Y-%m}", _total(tables, counts))
    for left in reversed(range(LOCK_TRIES)):
        if dry_run:
            break
        try:
            _drop(tables, entry.month, counts)
            break
        except OperationalError as error:
            if not left or not isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
                raise
            time.sleep(LOCK_PAUSE_SECONDS)
    return entry


@transaction.atomic
def _drop(tables: dict[str, str], month: str, counts: Counts) -> None:
    """The parents first, as readers and writers take them."""
    parents = ", ".join(f'ONLY "{table}"' for table in tables)
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}")
        cursor.execute(f"LOCK TABLE {parents} IN ACCESS EXCLUSIVE MODE")
        _audit(month, counts)
        for name in tables.values():
            cursor.execute(f'DROP TABLE "{name}"')


def _delete_strays(border: dt.datetime, dry_run: bool) -> Dropped:
    """Rows before `border` in the default partitions, and labels, skips and places in queues of decisions before it."""
    bound = uuid7_bound(border)
    places = {table: (f"{table}_default", f'"{key}" < %s') for table, key in PARTITIONED.items()}
    places |= {table: (table, which) for table, which in WITHOUT_MONTH.items()}
    with transaction.atomic(), connection.cursor() as cursor:
        counts: Counts = defaultdict(Counter)
        for table, (name, which) in places.items():
            where = f'FROM "{name}" WHERE {which}'
            if dry_run:
                cursor.execute(f"SELECT workspace_id, count(*) {where} GROUP BY 1", [bound])
            else:
                cursor.execute(
                    f"WITH gone AS (DELETE {where} RETURNING workspace_id)"  # noqa: S608 - our own names
                    " SELECT workspace_id, count(*) FROM gone GROUP BY 1",
                    [bound],
                )
            for workspace, count in cursor.fetchall():
                counts[workspace][table] = count
        if not dry_run:
            _audit(EARLIER, counts)
    return Dropped(EARLIER, _total(places, counts))


def _total(tables: Iterable[str], counts: Counts) -> dict[str, int]:
    return {table: sum(each[table] for each in counts.values()) for table in tables}


def _audit(month: str, counts: Counts) -> None:
    for workspace in Workspace.objects.filter(id__in=counts):
        details = dict(counts[workspace.id])
        record_audit(by=system(workspace), action="decisions.dropped", target=f"month:{month}", details=details)
