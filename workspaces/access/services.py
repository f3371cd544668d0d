"""Creates workspaces and API keys, rotates and revokes keys, and writes the audit. Every floor calls `record_audit`."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from workspaces.access.actors import Actor
from workspaces.access.key_bounds import refuse_wider_key, refuse_wider_limits
from workspaces.errors import FieldFault, InvalidInput, KeyNotLive
from workspaces.models import ApiKey, AuditEntry, Membership, Role, Scope, User, Workspace
from workspaces.storage.prepared import prepared_cursor
from workspaces.storage.row_cache import STAMP, RowCache

PREFIX_BYTES = 6
SECRET_BYTES = 32  # 256 bits
MAX_LIFE = dt.timedelta(days=3652)
MAX_OVERLAP = dt.timedelta(days=30)
LAST_USED_GRAIN = dt.timedelta(minutes=1)
MOST_REQUESTS = 1_000_000
MOST_SPEND = Decimal(10_000_000)
MOST_AGENTS = 100
SLUG = re.compile(r"[\w-]{1,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class NewKey:
    """`token` is shown once and stored nowhere."""

    key: ApiKey
    token: str


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """Of a key; ApiKey has the meaning. Numbers are above 0."""

    requests_a_minute: int | None = None
    spend_a_day: Decimal | None = None
    agents: Sequence[str] = ()


LIMITS = tuple(field.name for field in fields(KeyLimits))
NO_LIMITS = KeyLimits()


def secret_hmac(secret: str) -> bytes:
    return hmac.digest(settings.API_KEY_PEPPER.encode(), secret.encode(), hashlib.sha256)


def record_audit(*, by: Actor, action: str, target: str, details: Mapping[str, Any] | None = None) -> AuditEntry:
    """Call inside the transaction of what it records."""
    return AuditEntry.objects.create(
        workspace=by.workspace, actor=by.name, action=action, target=target, details=dict(details or {})
    )


@transaction.atomic
def create_workspace(*, slug: str, name: str, owner: User | None = None) -> Workspace:
    workspace = Workspace.objects.create(slug=slug, name=name)
    if owner is not None:
        Membership.objects.create(workspace=workspace, user=owner, role=Role.ADMIN)
    return workspace


@transaction.atomic
def create_api_key(
    *,
    by: Actor,
    name: str,
    scopes: Sequence[str],
    expires_at: dt.datetime | None = None,
    limits: KeyLimits = NO_LIMITS,
) -> NewKey:
    """Raises InvalidInput for unknown or missing scopes, and limits out of range, and NotAllowed where a key with
    limits would make a wider one."""
    unknown = sorted(set(scopes) - set(Scope.values))
    if unknown or not scopes:
        reason = f"unknown scopes {', '.join(unknown)}" if unknown else "no scope given"
        raise InvalidInput(
            "The key's scopes are invalid.",
            faults=[FieldFault("scopes", reason, f"some of {', '.join(Scope.values)}")],
        )
    columns = _columns_of(limits)
    refuse_wider_key(by, columns)
    prefix, secret = secrets.token_hex(PREFIX_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    key = ApiKey.objects.create(
        workspace=by.workspace,
        name=name,
        prefix=prefix,
        secret_hmac=secret_hmac(secret),
        scopes=sorted(set(scopes)),
        created_by=by.user,
        expires_at=expires_at,
        **columns,
    )
    details: dict[str, Any] = {"scopes": key.scopes}
    if expires_at is not None:
        details["expires_at"] = expires_at.isoformat()
    details |= {name: _plain(value) for name, value in columns.items() if value}
    record_audit(by=by, action="api_key.created", target=f"api_key:{key.id}", details=details)
    return NewKey(key=key, token=f"{prefix}.{secret}")


@transaction.atomic
def change_key_limits(*, by: Actor, key: ApiKey, changes: Mapping[str, Any]) -> ApiKey:
    """Fields of KeyLimits; what is left out stays as it is. They count from the next request on.

    Raises InvalidInput, KeyNotLive for a key that is revoked or expired, and NotAllowed where a key would change its
    own limits or widen others.
    """
    row = ApiKey.objects.for_workspace(by.workspace).select_for_update(of=("self",)).get(id=key.id)
    if not is_live(row, timezone.now()):
        raise KeyNotLive("The limits of a revoked or expired key cannot be changed. Create another key.")
    before = {name: getattr(row, name) for name in LIMITS}
    after = _columns_of(KeyLimits(**before | dict(changes)))
    changed = {name: value for name, value in after.items() if value != before[name]}
    if not changed:
        return row
    refuse_wider_limits(by, row, changed)
    for name, value in changed.items():
        setattr(row, name, value)
    row.save(update_fields=list(changed))
    told = {name: {"from": _plain(before[name]), "to": _plain(value)} for name, value in changed.items()}
    record_audit(by=by, action="api_key.limits_changed", target=f"api_key:{row.id}", details=told)
    return row


def _columns_of(limits: KeyLimits) -> dict[str, Any]:
    """Raises InvalidInput with every fault."""
    faults = []
    if limits.requests_a_minute is not None and not 0 < limits.requests_a_minute <= MOST_REQUESTS:
        expected = f"1 to {MOST_REQUESTS:,}, or null for the instance's limit"
        faults.append(FieldFault("requests_a_minute", f"{limits.requests_a_minute} is out of range", expected))
    if limits.spend_a_day is not None and not 0 < limits.spend_a_day <= MOST_SPEND:
        expected = f"more than 0, up to {MOST_SPEND:,}, or null for no budget"
        faults.append(FieldFault("spend_a_day", f"{limits.spend_a_day} is out of range", expected))
    if wrong := [slug for slug in limits.agents if not SLUG.fullmatch(slug)]:
        faults.append(FieldFault("agents", f"{wrong[0][:80]!r} is not a slug", "slugs of agents, or none for all"))
    if len(limits.agents) > MOST_AGENTS:
        faults.append(FieldFault("agents", f"are {len(limits.agents)}", f"at most {MOST_AGENTS}, or none for all"))
    if faults:
        raise InvalidInput("The key's limits are invalid.", faults=faults)
    return {
        "requests_a_minute": limits.requests_a_minute,
        "spend_a_day": limits.spend_a_day,
        "agents": sorted(set(limits.agents)),
    }


def _plain(value: Any) -> Any:
    """For the audit: an amount as it was entered."""
    return f"{value.normalize():f}" if isinstance(value, Decimal) else value


@transaction.atomic
def rotate_api_key(*, by: Actor, key: ApiKey, overlap: dt.timedelta) -> NewKey:
    """A new secret under the same prefix; the one before works for `overlap` more (0 to 30 days).

    A second rotation within that time ends the oldest at once. Raises InvalidInput, KeyNotLive for a key that is
    revoked or expired, and NotAllowed where a key with limits would get a wider one.
    """
    if not dt.timedelta(0) <= overlap <= MAX_OVERLAP:
        faults = [FieldFault("overlap_seconds", f"{overlap.total_seconds():g}", "0 seconds to 30 days")]
        raise InvalidInput("The overlap is invalid.", faults=faults)
    now = timezone.now()
    row = ApiKey.objects.for_workspace(by.workspace).select_for_update(of=("self",)).get(id=key.id)
    if not is_live(row, now):
        raise KeyNotLive("A revoked or expired key cannot be rotated. Create another key.")
    if by.key is None or by.key.id != row.id:
        refuse_wider_key(by, {name: getattr(row, name) for name in LIMITS})
    secret = secrets.token_urlsafe(SECRET_BYTES)
    row.previous_hmac, row.previous_until = row.secret_hmac, now + overlap
    row.secret_hmac = secret_hmac(secret)
    row.save(update_fields=["previous_hmac", "previous_until", "secret_hmac"])
    record_audit(
        by=by,
        action="api_key.rotated",
        target=f"api_key:{row.id}",
        details={"previous_until": row.previous_until.isoformat()},
    )
    return NewKey(key=row, token=f"{row.prefix}.{secret}")


@transaction.atomic
def revoke_api_key(*, by: Actor, key: ApiKey) -> None:
    """Both secrets end at once. A second time nothing happens."""
    if ApiKey.objects.for_workspace(by.workspace).filter(id=key.id, revoked_at=None).update(revoked_at=timezone.now()):
        record_audit(by=by, action="api_key.revoked", target=f"api_key:{key.id}")


def is_live(key: ApiKey, now: dt.datetime) -> bool:
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > now)


def find_key(token: str) -> ApiKey | None:
    """The live key of a token, or None."""
    prefix, _, secret = token.partition(".")
    key = _read_key(prefix)
    return key if opens(key, secret) else None


def opens(key: ApiKey | None, secret: str) -> bool:
    """Whether the key is live and this is its secret, in constant time; notes that it was used."""
    given, now = secret_hmac(secret), timezone.now()
    # An unknown prefix costs the same comparisons as a wrong secret.
    current = hmac.compare_digest(bytes(key.secret_hmac) if key else bytes(32), given)
    before = hmac.compare_digest(bytes(key.previous_hmac or bytes(32)) if key else bytes(32), given)
    if key is None or not is_live(key, now):
        return False
    if not current and not (before and key.previous_until is not None and key.previous_until > now):
        return False
    if key.last_used_at is None or now - key.last_used_at > LAST_USED_GRAIN:
        ApiKey.objects.filter(id=key.id).update(last_used_at=now)
    return True


_KEYS: RowCache[ApiKey] = RowCache()
_KEY_STAMP = f"""
SELECT {STAMP.format("k")} || ' ' || {STAMP.format("w")}
  FROM workspaces_apikey k JOIN workspaces_workspace w ON w.id = k.workspace_id WHERE k.prefix = %s
"""  # noqa: S608 - names of our own


def _read_key(prefix: str) -> ApiKey | None:
    """With its workspace. Every request of a program asks this."""
    with prepared_cursor() as cursor:
        cursor.execute(_KEY_STAMP, [prefix])
        row = cursor.fetchone()
    if row is None:
        return None
    key = _KEYS.find(prefix, row[0])
    if key is None:
        key = ApiKey.objects.select_related("workspace").filter(prefix=prefix).first()
        if key is not None:
            _KEYS.keep(prefix, row[0], key)
    return key
