"""Shared code of the ledger's batches: results of items, checks of ids and times, and one transaction that tells
repeats from conflicts.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
from django.db import IntegrityError, transaction
from msgspec import UNSET, UnsetType
from xxhash import xxh3_128_digest

from decisions.errors import Erased, IdConflict, IdNotUsable
from decisions.ingest.decoding import ItemError
from decisions.ingest.episodes import ensure_episodes
from decisions.ingest.item_ends import mark_late_decisions
from decisions.ingest.writer import (
    Columns,
    Row,
    Table,
    Written,
    columns_of,
    is_repeat,
    keep_places,
    write_columns,
)
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, ReckonerError
from workspaces.storage.ids import uuid7_time

OLDEST = dt.timedelta(days=400)
NEWEST = dt.timedelta(hours=1)
# Clients' clocks may be wrong, but a time that Python cannot read back would break every list with it.
EARLIEST = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LATEST = dt.datetime(2200, 1, 1, tzinfo=dt.UTC)
LARGEST_OFFSET = dt.timedelta(hours=16)
"""PostgreSQL refuses an offset from UTC of this size or more. The largest of a real time zone is 14 hours."""
COST_GRAIN = Decimal("0.00000001")


class Kept(msgspec.Struct, frozen=True, gc=False):
    """What became of item `index`: its id, and whether it was there before with the same content."""

    index: int
    id: uuid.UUID
    duplicate: bool


@dataclass(frozen=True, slots=True)
class BatchResult:
    """Of a batch: what was kept, and why the rest was not."""

    kept: list[Kept]
    errors: list[ItemError]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Of a batch: the columns of what is usable, with each row's place in the request, and why the rest is not."""

    places: list[int]
    columns: Columns
    errors: list[ItemError]


_in_order = msgspec.json.Encoder(order="deterministic").encode_lines


def content_hashes(items: Sequence[Any]) -> list[bytes]:
    """Of what the client sent in each item, keys in order, defaults left out: equal content under one id is a repeat.

    XXH3 of 128 bits, since it tells repeats from mistakes and guards nothing: whoever makes two contents that collide
    loses one of their own, and SHA-256 took twice as long as writing the items out.
    """
    lines = _in_order(items).split(b"\n")  # JSON holds no raw newline
    return [xxh3_128_digest(line) for line in lines[:-1]]


def content_hash(item: Any) -> bytes:
    """`content_hashes` of one."""
    return content_hashes([item])[0]


def check_id(given: uuid.UUID, now: dt.datetime, since: dt.datetime | None = None) -> list[FieldFault]:
    """Faults of a client's id: ids order and partition the ledger, so they are uuid7 of about now."""
    moment = uuid7_time(given)
    if moment is None:
        return [FieldFault("id", "is not a uuid7", "a uuid7; other ids go to external_id")]
    oldest = now - OLDEST if since is None else since
    if not oldest <= moment <= now + NEWEST:
        expected = "400 days back to 1 hour ahead" if since is None else f"{since:%Y} to 1 hour ahead"
        return [FieldFault("id", f"its time {moment.isoformat()} is out of range", expected)]
    return []


def check_moment(given: dt.datetime | UnsetType, name: str = "observed_at") -> list[FieldFault]:
    if given is UNSET:
        return []
    if not EARLIEST <= given <= LATEST:
        return [FieldFault(name, f"{given.isoformat()} is out of range", f"{EARLIEST:%Y} to {LATEST:%Y}")]
    if not has_usable_offset(given):
        return [FieldFault(name, f"{given.isoformat()} is too far from UTC", "an offset of less than 16 hours")]
    return []


def has_usable_offset(given: dt.datetime) -> bool:
    """Whether PostgreSQL takes the moment's offset from UTC, to either side."""
    return given.tzinfo is dt.UTC or abs(given.utcoffset() or dt.timedelta()) < LARGEST_OFFSET


Prepare = Callable[[Sequence[tuple[int, Any]]], Prepared]


def prepare_rows(as_row: Callable[[Any], Row], items: Sequence[tuple[int, Any]]) -> Prepared:
    """One row after the other. `as_row` raises ReckonerError for what is not usable."""
    places: list[int] = []
    rows: list[Row] = []
    errors: list[ItemError] = []
    for index, item in items:
        try:
            rows.append(as_row(item))
            places.append(index)
        except ReckonerError as error:
            errors.append(ItemError.of(index, error))
    return Prepared(places, columns_of(rows), errors)


def write_batch(table: Table, items: Sequence[tuple[int, Any]], prepare: Prepare, by: Actor) -> BatchResult:
    """What is usable of the items, in one transaction; repeats and conflicts told apart."""
    try:
        return _write_batch(table, prepare(items), by)
    except Erased as error:
        # The rollback also undid other writes, such as an episode's name. Tombstones are rare, so the rest is written
        # again.
        gone = {index: item.id for index, item in items if item.id in error.ids}
        if not gone:
            raise
    rest = write_batch(table, [pair for pair in items if pair[0] not in gone], prepare, by)
    erased = [ItemError.of(index, Erased.of([row_id])) for index, row_id in gone.items()]
    return BatchResult(rest.kept, sorted([*rest.errors, *erased], key=lambda error: error.index))


def _write_batch(table: Table, prepared: Prepared, by: Actor) -> BatchResult:
    places, columns, errors = prepared.places, prepared.columns, list(prepared.errors)
    ids: Sequence[uuid.UUID] = columns.get("id", [])
    if not ids:
        return BatchResult([], errors)
    repeats: dict[int, uuid.UUID] = {}
    if len({row_id.int for row_id in ids}) < len(ids):
        first, again, others = _find_doubles(columns)
        errors += [ItemError.of(places[at], _conflict(ids[at])) for at in others]
        repeats = {places[at]: ids[at] for at in again}
        places, columns = [places[at] for at in first], keep_places(columns, first)
        ids = columns["id"]
    try:
        written = _write_once(table, columns, by, repeated=False)
    except IntegrityError as error:
        if not is_repeat(error):
            raise
        written = _write_once(table, columns, by, repeated=True)
    if not (written.duplicates or written.conflicts or written.foreign or repeats):
        return BatchResult([Kept(place, row_id, False) for place, row_id in zip(places, ids, strict=True)], errors)
    kept = []
    for place, row_id, known in [
        *((place, row_id, row_id in written.duplicates) for place, row_id in zip(places, ids, strict=True)),
        *((place, row_id, True) for place, row_id in repeats.items()),
    ]:
        if row_id in written.conflicts:
            errors.append(ItemError.of(place, _conflict(row_id)))
        elif row_id in written.foreign:
            errors.append(ItemError.of(place, IdNotUsable.of()))
        else:
            kept.append(Kept(place, row_id, known))
    return BatchResult(sorted(kept, key=lambda one: one.index), sorted(errors, key=lambda error: error.index))


def _find_doubles(columns: Columns) -> tuple[list[int], list[int], list[int]]:
    """Rows by the first of each id, those that repeat it, and those that say something else under it."""
    first: dict[uuid.UUID, int] = {}
    repeats: list[int] = []
    conflicts: list[int] = []
    for at, (row_id, digest) in enumerate(zip(columns["id"], columns["content_hash"], strict=True)):
        earlier = first.setdefault(row_id, at)
        if earlier != at:
            (repeats if columns["content_hash"][earlier] == digest else conflicts).append(at)
    return list(first.values()), repeats, conflicts


def _write_once(table: Table, columns: Columns, by: Actor, *, repeated: bool) -> Written:
    refs = {ref for ref in columns.get("item_ref", ()) if ref}
    if len(columns["id"]) == 1 and not refs and not _names_episodes(columns):
        # One statement is a transaction of its own: BEGIN and COMMIT would be two more round trips.
        return write_columns(table, columns, repeated=repeated)
    # What a repeat or a tombstone raises is taken back to here.
    with transaction.atomic():
        written = write_columns(table, resolve_episodes(by, columns), repeated=repeated)
        mark_late_decisions(by.workspace.id, refs)
    return written


def _conflict(row_id: uuid.UUID) -> IdConflict:
    message = f"{row_id} was already recorded with different content"
    return IdConflict(message, faults=[FieldFault("id", message, "a new ID, or the same content")])


def as_cost(given: float | None) -> Decimal | None:
    return None if given is None else Decimal(repr(given)).quantize(COST_GRAIN)


def _names_episodes(columns: Columns) -> bool:
    return "agent_id" in columns and any(isinstance(name, str) for name in columns["episode_id"])


def resolve_episodes(by: Actor, columns: Columns) -> Columns:
    """With ids for the names of episodes, which are made on first sight: three queries for a batch.

    The given columns keep the names: a transaction that is taken back takes what was made with it.
    """
    if not _names_episodes(columns):
        return columns
    found = list(zip(columns["agent_id"], columns["episode_id"], columns["observed_at"], strict=True))
    started = {(agent, name): moment for agent, name, moment in reversed(found) if isinstance(name, str)}
    ids = ensure_episodes(by=by, named=started)
    episodes = [ids[agent, name] if isinstance(name, str) else name for agent, name, _ in found]
    return columns | {"episode_id": episodes}
