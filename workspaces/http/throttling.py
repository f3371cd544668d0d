"""Limits the requests a minute of one key, counted in Valkey for all web processes together.

A process takes shares of a minute's allowance, a hundredth at a time, and spends them without asking again: the limit
is exact to one share for each process. While Valkey is away nobody is limited, since recording decisions must not
depend on the broker.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from dataclasses import dataclass
from typing import Any

import redis
import structlog
from django.conf import settings
from django.db import DatabaseError
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault, TooManyRequests
from workspaces.models import ApiKey
from workspaces.storage.broker_errors import AWAY, is_away

logger = structlog.get_logger(__name__)
WINDOW = 60
SHARES = 100
ANSWER_SECONDS = 0.25
AWAY_SECONDS = 5.0
AUDIT_SECONDS = 3600


@dataclass(slots=True)
class Share:
    """What is left of a taken share in one window. `beyond`: what nobody had taken then."""

    window: int
    left: int
    beyond: int


_shares: dict[str, Share] = {}
_lock = threading.Lock()
_away_until = 0.0


@functools.cache
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS)


class KeyThrottle(BaseThrottle):
    """Of programs, the internal key among them: people are limited where they log in. Raises TooManyRequests."""

    def allow_request(self, request: Request, view: Any) -> bool:
        if isinstance(request.user, Actor):
            count_request(request.user)
        return True


def count_request(actor: Actor) -> None:
    """One request of a program. Raises TooManyRequests."""
    limit = limit_of(actor.key)
    if limit <= 0 or actor.user is not None or _take(_sender(actor), limit):
        return
    _note_once_an_hour(actor, limit)
    wait = _seconds_left(time.time())
    fault = FieldFault(
        "requests_a_minute", f"more than {limit} in this minute", f"send the same request again in {wait} s"
    )
    raise TooManyRequests(
        f"This key may send {limit} requests per minute. Wait for the time in Retry-After.",
        wait=wait,
        faults=[fault],
        limit=limit,
    )


@dataclass(frozen=True, slots=True)
class Allowance:
    """The current minute: requests that a program may send in it, those that are left, and the seconds until it is
    over. `left` is exact to one share for each process."""

    limit: int
    left: int
    seconds: int


def find_allowance(actor: Actor) -> Allowance | None:
    """Finds it as the process knows it, without asking Valkey. None without a limit, and where nothing was counted."""
    limit = limit_of(actor.key)
    if limit <= 0 or actor.user is not None:
        return None
    now = time.time()
    with _lock:
        share = _shares.get(_sender(actor))
        if share is None or share.window != int(now) // WINDOW:
            return None
        left = min(limit, share.left + share.beyond)
    return Allowance(limit, left, _seconds_left(now))


def _seconds_left(now: float) -> int:
    return max(1, math.ceil(WINDOW - now % WINDOW))


def limit_of(key: ApiKey | None) -> int:
    """Requests a minute, 0 for no limit. A key's own limit may be below the instance's, and never raises it: an admin
    has the workspace, and the operator the instance."""
    limits = (settings.KEY_REQUESTS_A_MINUTE, key.requests_a_minute if key is not None else None)
    return min((limit for limit in limits if limit is not None and limit > 0), default=0)


def count_this_minute(actor: Actor) -> int | None:
    """The requests of the current minute at most: shares are counted when they are taken. None while Valkey is away."""
    try:
        counted = _client(settings.REDIS_URL).get(_counter(_sender(actor), int(time.time()) // WINDOW))
    except AWAY as error:
        if not is_away(error):
            raise
        logger.warning("throttle_unavailable", error=str(error))
        return None
    return min(int(counted or 0), limit_of(actor.key))


def _sender(actor: Actor) -> str:
    return f"{actor.workspace.id}:{actor.name}"


def _counter(sender: str, window: int) -> str:
    return f"reckoner:requests:{sender}:{window}"


def _take(sender: str, limit: int) -> bool:
    """One request of the current minute's allowance."""
    global _away_until
    window = int(time.time()) // WINDOW
    with _lock:
        share = _shares.get(sender)
        if share is not None and share.window == window and share.left > 0:
            share.left -= 1
            return True
    if time.monotonic() < _away_until:
        return True
    size = max(1, limit // SHARES)
    name = _counter(sender, window)
    try:
        with _client(settings.REDIS_URL).pipeline(transaction=False) as pipeline:
            pipeline.incrby(name, size)
            pipeline.expire(name, 2 * WINDOW)
            taken = pipeline.execute()[0]
    except AWAY as error:
        if not is_away(error):
            raise
        logger.warning("throttle_unavailable", error=str(error))
        _away_until = time.monotonic() + AWAY_SECONDS
        return True
    granted = min(size, limit - (taken - size))
    if granted <= 0:
        return False
    with _lock:
        if len(_shares) > 10_000:
            _shares.clear()
        _shares[sender] = Share(window, granted - 1, max(0, limit - taken))
    return True


def _note_once_an_hour(actor: Actor, limit: int) -> None:
    """The audit says that a key ran into its limit, not how often: a flood must not fill it."""
    try:
        first = _client(settings.REDIS_URL).set(
            f"reckoner:throttled:{actor.workspace.id}:{actor.name}", 1, nx=True, ex=AUDIT_SECONDS
        )
        if first:
            details = {"requests_a_minute": limit}
            target = f"api_key:{actor.key.id if actor.key else actor.name}"
            record_audit(by=actor, action="api_key.throttled", target=target, details=details)
    except (*AWAY, DatabaseError) as error:
        if isinstance(error, AWAY) and not is_away(error):
            raise
        logger.warning("throttling_not_noted", error=str(error))
