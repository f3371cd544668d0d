"""uuid7 ids: ordered by time, so one plain key serves order, partitions and deduplication."""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid

import uuid_utils.compat

__all__ = ["is_uuid7_between", "uuid7", "uuid7_bound", "uuid7_of", "uuid7_time"]

LATEST = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC).timestamp()
"""48 bits of milliseconds go on for nine centuries after Python's last year."""


def uuid7() -> uuid.UUID:
    """A fresh id. Made in Python because PostgreSQL before 18 has no such function."""
    made: uuid.UUID = uuid_utils.compat.uuid7()
    return made


def uuid7_time(value: uuid.UUID) -> dt.datetime | None:
    """The moment (to the millisecond, UTC) inside a uuid7, at the latest the end of 9999; None for other versions."""
    if value.version != 7:
        return None
    return dt.datetime.fromtimestamp(min((value.int >> 80) / 1000, LATEST), tz=dt.UTC)


def is_uuid7_between(value: uuid.UUID, low: int, high: int) -> bool:
    """Whether it is a uuid7 from `low` to below `high`, the numbers of two `uuid7_bound`s. For thousands at a time:
    `uuid7_time` takes ten times as long."""
    number = value.int
    return low <= number < high and (number >> 76) & 0xF == 7 and (number >> 62) & 0b11 == 0b10


def uuid7_bound(moment: dt.datetime) -> uuid.UUID:
    """The smallest value that any uuid7 of `moment` or later can have: a bound for ranges, not an id."""
    return uuid.UUID(int=int(moment.timestamp() * 1000) << 80)


def uuid7_of(moment: dt.datetime, content: bytes) -> uuid.UUID:
    """The id of this content at this moment (to the millisecond): the same twice, so that a repeat is harmless."""
    drawn = int.from_bytes(hashlib.sha256(content).digest()[:10], "big")
    high, low = drawn >> 68, drawn & ((1 << 62) - 1)  # 12 bits beside the version, 62 beside the variant
    return uuid.UUID(int=int(moment.timestamp() * 1000) << 80 | 7 << 76 | high << 64 | 2 << 62 | low)
