"""Limits failed log-ins: by account and address together, and by address alone.

A stranger's failures block the account for the stranger's address only, so that nobody can lock its owner out; an
address may fail five times as often over all accounts. An attempt is counted before the password is checked, by one
atomic step in the cache: a hundred at once still count, and a blocked one costs no hash. (django-axes 8 counts after
the check, and has one limit for all that it counts by.)
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import time
import unicodedata
from dataclasses import dataclass

import structlog
from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.http import HttpRequest

from workspaces.access.actors import system
from workspaces.access.services import record_audit
from workspaces.models import Membership

logger = structlog.get_logger(__name__)
PER_ADDRESS = 5


@dataclass(frozen=True, slots=True)
class Attempt:
    """One look at a password that was asked for. `wait`: seconds until there may be one; 0: now."""

    wait: int
    address_key: str = ""
    pair_key: str = ""

    def succeeded(self) -> None:
        """The right password: the account's count for this address starts anew, and the address gets its try back."""
        if self.pair_key:
            cache.delete(self.pair_key)
            _give_back(self.address_key)


def begin_attempt(*, account: str, address: str | None, now: float | None = None) -> Attempt:
    """Counts one attempt of the running window. `now`: seconds since 1970, else the clock's."""
    limit, window = settings.LOG_IN_FAILURES, max(1.0, settings.LOG_IN_WINDOW_SECONDS)
    if limit <= 0:
        return Attempt(wait=0)
    number, past = divmod(time.time() if now is None else now, window)
    wait = math.ceil(window - past)
    account, place = _normal(account), _network(address)
    address_key = _name("address", place, number)
    pair_key = _name("account", f"{account}\n{place}", number)
    if _count(address_key, wait) > limit * PER_ADDRESS:
        return Attempt(wait=wait)
    tries = _count(pair_key, wait)
    if tries > limit:
        _give_back(address_key)  # nothing was tried: the address's other people have theirs
        if tries == limit + 1:
            _note_closed(account, address, limit)
        return Attempt(wait=wait)
    return Attempt(0, address_key, pair_key)


def client_address(request: HttpRequest) -> str | None:
    """The address that the outermost trusted proxy saw; without proxies the connection's. None when it is none."""
    hops = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if part.strip()]
    trusted = settings.TRUSTED_PROXIES
    given = hops[-trusted] if 0 < trusted <= len(hops) else request.META.get("REMOTE_ADDR", "")
    try:
        return str(ipaddress.ip_address(given))
    except ValueError:
        return None


def _normal(account: str) -> str:
    """As the log-in form reads it: letters of another width are the same account."""
    return unicodedata.normalize("NFKC", account).strip().lower()


def _network(address: str | None) -> str:
    """One place on the network: of IPv6 the /64, which its owner numbers at will."""
    if address is None:
        return "unknown"
    known = ipaddress.ip_address(address)
    return str(ipaddress.ip_network((known, 64), strict=False)) if known.version == 6 else str(known)


def _name(kind: str, what: str, number: float) -> str:
    """What was typed is no cache key, and is nobody's business in the cache."""
    digest = hashlib.sha256(what.encode("utf-8", "surrogateescape")).hexdigest()
    return f"log-in:{kind}:{digest}:{settings.LOG_IN_WINDOW_SECONDS:g}:{number:g}"


def _count(name: str, seconds: int) -> int:
    cache.add(name, 0, timeout=seconds + 1)
    return cache.incr(name)


def _give_back(name: str) -> None:
    cache.add(name, 1, timeout=1)  # its window may have ended meanwhile
    cache.decr(name)


@transaction.atomic
def _note_closed(account: str, address: str | None, failures: int) -> None:
    """In the audit of the person's workspaces."""
    logger.warning("log_in_closed", address=address)
    for membership in Membership.objects.active().filter(user__email=account).select_related("workspace", "user"):
        record_audit(
            by=system(membership.workspace),
            action="log_in.closed",
            target=f"user:{membership.user.id}",
            details={"failures": failures, "address": address},
        )
