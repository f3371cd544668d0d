"""How often a wrong password may be tried: by account and by address, counted in the database.

An account is closed for a while after some failures from anywhere, an address after five times as many for any account.
A closed one is refused without a look at the password, right or wrong, and that is not counted.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import math

import structlog
from django.conf import settings
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from workspaces.actors import system
from workspaces.models import FailedLogIn, Membership
from workspaces.services import record_audit

logger = structlog.get_logger(__name__)
PER_ADDRESS = 5


def window() -> dt.timedelta:
    return dt.timedelta(seconds=settings.LOG_IN_WINDOW_SECONDS)


def client_address(request: HttpRequest) -> str | None:
    """The address that the outermost trusted proxy saw; without proxies the connection's. None when it is none."""
    hops = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if part.strip()]
    trusted = settings.TRUSTED_PROXIES
    given = hops[-trusted] if 0 < trusted <= len(hops) else request.META.get("REMOTE_ADDR", "")
    try:
        return str(ipaddress.ip_address(given))
    except ValueError:
        return None


def seconds_closed(*, account: str, address: str | None) -> int:
    """How long this account, or this address, has to wait; 0 when it may try."""
    limit = settings.LOG_IN_FAILURES
    if limit <= 0:
        return 0
    now = timezone.now()
    waits = [_wait(now, limit, account=account.strip().lower()[:254])]
    if address is not None:
        waits.append(_wait(now, limit * PER_ADDRESS, address=address))
    return max(waits)


def _wait(now: dt.datetime, limit: int, **what: str) -> int:
    """Until the oldest of the last `limit` failures leaves the window."""
    since = now - window()
    moments = FailedLogIn.objects.filter(at__gt=since, **what).order_by("-at").values_list("at", flat=True)[:limit]
    oldest = list(moments)
    return math.ceil((oldest[-1] - since).total_seconds()) if len(oldest) >= limit else 0


@transaction.atomic
def note_failure(*, account: str, address: str | None) -> None:
    """Counts one. The failure that closes an account stands in the audit of its person's workspaces."""
    account = account.strip().lower()[:254]
    FailedLogIn.objects.create(account=account, address=address, at=timezone.now())
    recent = FailedLogIn.objects.filter(account=account, at__gt=timezone.now() - window()).count()
    if recent != settings.LOG_IN_FAILURES:
        return
    logger.warning("log_in_closed", address=address)
    for membership in Membership.objects.filter(user__email=account).select_related("workspace", "user"):
        record_audit(
            by=system(membership.workspace),
            action="log_in.closed",
            target=f"user:{membership.user.id}",
            details={"failures": recent, "address": address},
        )


def forget_failures(*, account: str) -> None:
    """After the right password."""
    FailedLogIn.objects.filter(account=account.strip().lower()[:254]).delete()


def drop_old_failures() -> int:
    return FailedLogIn.objects.filter(at__lte=timezone.now() - window()).delete()[0]
