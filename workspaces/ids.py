"""uuid7 ids: ordered by time, so one plain key serves order, partitions and deduplication."""

from __future__ import annotations

import datetime as dt
import uuid

import uuid_utils.compat

__all__ = ["uuid7", "uuid7_bound", "uuid7_time"]


def uuid7() -> uuid.UUID:
    """A fresh id. Made in Python because PostgreSQL before 18 has no such function."""
    made: uuid.UUID = uuid_utils.compat.uuid7()
    return made


def uuid7_time(value: uuid.UUID) -> dt.datetime | None:
    """The moment (millisecond precision, UTC) inside a uuid7; None for any other version."""
    if value.version != 7:
        return None
    return dt.datetime.fromtimestamp((value.int >> 80) / 1000, tz=dt.UTC)


def uuid7_bound(moment: dt.datetime) -> uuid.UUID:
    """The smallest value that any uuid7 of `moment` or later can have: a bound for ranges, not an id."""
    return uuid.UUID(int=int(moment.timestamp() * 1000) << 80)
