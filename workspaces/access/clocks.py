"""Notes at a key that the clock of a program with it is off. Times that have passed say nothing, since programs also
send what they kept or import; what cannot be is a time to come, and a Date of the request that is not now."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from email.utils import parsedate_to_datetime

import structlog

from workspaces.models import ApiKey
from workspaces.storage.clock import database_now

logger = structlog.get_logger(__name__)

TOLERANCE = dt.timedelta(minutes=5)
GRAIN = dt.timedelta(minutes=10)
"""A clock that stays as wrong is noted again after this time."""


def note_clock(key: ApiKey | None, *, moments: Iterable[dt.datetime], date: str | None) -> None:
    """`moments`: what the program says of when things happened; `date`: its request's header, which alone can show that
    a clock is behind, or right again."""
    if key is None:
        return
    now = database_now()
    sent = _read_date(date)
    latest = max(moments, default=None)
    ahead = None if latest is None else latest - now
    if ahead is None or ahead <= TOLERANCE:
        ahead = None if sent is None else sent - now
    if ahead is None:
        return
    if abs(ahead) > TOLERANCE:
        _note(key, ahead.total_seconds(), now)
    elif key.clock_ahead_seconds is not None:
        ApiKey.objects.filter(id=key.id).update(clock_ahead_seconds=None, clock_seen_at=None)


def _note(key: ApiKey, seconds: float, now: dt.datetime) -> None:
    known, seen = key.clock_ahead_seconds, key.clock_seen_at
    is_new = known is None or seen is None or abs(known - seconds) > TOLERANCE.total_seconds()
    if not is_new and seen is not None and now - seen < GRAIN:
        return
    logger.warning("client_clock_off", key=key.prefix, seconds=round(seconds))
    ApiKey.objects.filter(id=key.id).update(clock_ahead_seconds=seconds, clock_seen_at=now)


def _read_date(header: str | None) -> dt.datetime | None:
    if header is None:
        return None
    try:
        sent = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    return sent.replace(tzinfo=dt.UTC) if sent.tzinfo is None else sent
