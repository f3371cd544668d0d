"""The database's clock, by which jobs are due and windows close: web, workers and beat may be on machines whose clocks
differ, or are set back. Whatever writes or compares such a moment calls `database_now`."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass

from django.db import connection
from django.utils import timezone

TOLERANCE = dt.timedelta(seconds=1)
"""So much two clocks that are kept in step may differ, and less is not corrected."""
MEASURE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Measured:
    """`ahead`: of this machine's clock; `boot`: what it said when `time.monotonic` was 0, which a step changes."""

    ahead: dt.timedelta
    boot: dt.datetime
    at: float


_measured: _Measured | None = None


def database_now() -> dt.datetime:
    """Asks the database once a minute, and at once where this machine's clock was set. Raises DatabaseError."""
    global _measured
    now, ticks = timezone.now(), time.monotonic()
    known = _measured
    if (
        known is None
        or ticks - known.at > MEASURE_SECONDS
        or abs(now - dt.timedelta(seconds=ticks) - known.boot) > TOLERANCE
    ):
        known = _measured = _measure()
    return timezone.now() + known.ahead


def _measure() -> _Measured:
    with connection.wrap_database_errors:
        connection.ensure_connection()
        # Not through Django's cursor: this is no query of the caller's, who may count them.
        before = timezone.now()
        (there,) = connection.connection.execute("SELECT clock_timestamp()").fetchone()
        after, ticks = timezone.now(), time.monotonic()
    half = (after - before) / 2  # by so much it may be wrong: hours, where this process was frozen meanwhile
    ahead = there - (before + half)
    if abs(ahead) <= TOLERANCE + abs(half):
        ahead = dt.timedelta(0)
    return _Measured(ahead, after - dt.timedelta(seconds=ticks), ticks)
