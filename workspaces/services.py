"""Creates workspaces and API keys, rotates and revokes keys, and writes the audit. Every floor calls `record_audit`."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from workspaces.actors import Actor
from workspaces.errors import FieldFault, InvalidInput, KeyNotLive
from workspaces.models import ApiKey, AuditEntry, Membership, Role, Scope, User, Workspace
from workspaces.prepared import prepared_cursor
from workspaces.row_cache import STAMP, RowCache

PREFIX_BYTES = 6
SECRET_BYTES = 32  # 256 bits
MAX_LIFE = dt.timedelta(days=3652)
MAX_OVERLAP = dt.timedelta(days=30)
LAST_USED_GRAIN = dt.timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class NewKey:
    """`token` is shown once and stored nowhere."""

    key: ApiKey
    token: str


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
def create_api_key(*, by: Actor, name: str, scopes: Sequence[str], expires_at: dt.datetime | None = None) -> NewKey:
    """Raises InvalidInput for unknown or missing scopes."""
    unknown = sorted(set(scopes) - set(Scope.values))
    if unknown or not scopes:
        reason = f"unknown scopes {', '.join(unknown)}" if unknown else "no scope given"
        raise InvalidInput(
            "The key's scopes are invalid.",
            faults=[FieldFault("scopes", reason, f"some of {', '.join(Scope.values)}")],
        )
    prefix, secret = secrets.token_hex(PREFIX_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    key = ApiKey.objects.create(
        workspace=by.workspace,
        name=name,
        prefix=prefix,
        secret_hmac=secret_hmac(secret),
        scopes=sorted(set(scopes)),
        created_by=by.user,
        expires_at=expires_at,
    )
    details: dict[str, Any] = {"scopes": key.scopes}
    if expires_at is not None:
        details["expires_at"] = expires_at.isoformat()
    record_audit(by=by, action="api_key.created", target=f"api_key:{key.id}", details=details)
    return NewKey(key=key, token=f"{prefix}.{secret}")


@transaction.atomic
def rotate_api_key(*, by: Actor, key: ApiKey, overlap: dt.timedelta) -> NewKey:
    """A new secret under the same prefix; the one before works for `overlap` more (0 to 30 days).

    A second rotation within that time ends the oldest at once. Raises InvalidInput, and KeyNotLive for a key that is
    revoked or expired.
    """
    if not dt.timedelta(0) <= overlap <= MAX_OVERLAP:
        faults = [FieldFault("overlap_seconds", f"{overlap.total_seconds():g}", "0 seconds to 30 days")]
        raise InvalidInput("The overlap is invalid.", faults=faults)
    now = timezone.now()
    row = ApiKey.objects.for_workspace(by.workspace).select_for_update(of=("self",)).get(id=key.id)
    if not is_live(row, now):
        raise KeyNotLive("A revoked or expired key cannot be rotated. Create another key.")
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
    """The live key of a token, or None. Secrets are compared in constant time."""
    prefix, _, secret = token.partition(".")
    key = _read_key(prefix)
    given, now = secret_hmac(secret), timezone.now()
    # An unknown prefix costs the same comparisons as a wrong secret.
    current = hmac.compare_digest(bytes(key.secret_hmac) if key else bytes(32), given)
    before = hmac.compare_digest(bytes(key.previous_hmac or bytes(32)) if key else bytes(32), given)
    if key is None or not is_live(key, now):
        return None
    if not current and not (before and key.previous_until is not None and key.previous_until > now):
        return None
    if key.last_used_at is None or now - key.last_used_at > LAST_USED_GRAIN:
        ApiKey.objects.filter(id=key.id).update(last_used_at=now)
    return key


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
