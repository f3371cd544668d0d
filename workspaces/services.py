"""Making workspaces, people and keys, and writing the audit."""

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
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import ApiKey, AuditEntry, Membership, Role, Scope, User, Workspace

PREFIX_BYTES = 6
SECRET_BYTES = 32  # 256 bits
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
            "The key's scopes are not usable.",
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
    record_audit(by=by, action="api_key.created", target=f"api_key:{key.id}", details={"scopes": key.scopes})
    return NewKey(key=key, token=f"{prefix}.{secret}")


@transaction.atomic
def revoke_api_key(*, by: Actor, key: ApiKey) -> None:
    if ApiKey.objects.for_workspace(by.workspace).filter(id=key.id, revoked_at=None).update(revoked_at=timezone.now()):
        record_audit(by=by, action="api_key.revoked", target=f"api_key:{key.id}")


def find_key(token: str) -> ApiKey | None:
    """The live key of a token, or None. The secret is compared in constant time."""
    prefix, _, secret = token.partition(".")
    key = ApiKey.objects.select_related("workspace").filter(prefix=prefix).first()
    # An unknown prefix costs the same comparison as a wrong secret.
    stored = bytes(key.secret_hmac) if key is not None else bytes(32)
    if not hmac.compare_digest(stored, secret_hmac(secret)) or key is None:
        return None
    now = timezone.now()
    if key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now):
        return None
    if key.last_used_at is None or now - key.last_used_at > LAST_USED_GRAIN:
        ApiKey.objects.filter(id=key.id).update(last_used_at=now)
    return key
