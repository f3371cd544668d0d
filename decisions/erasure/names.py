"""Recognises erased names by fingerprints, which only the installation's own key can make.

A tombstone keeps its id but not its names. Clients repeat requests by name too: an episode's name, a change's external
id, an idempotency key, an item's reference.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable

from decisions.models import ErasedName
from workspaces.access.services import secret_hmac
from workspaces.models import Workspace

EPISODE = "episode"
CHANGE = "change"
FEEDBACK = "feedback"
ITEM = "item"

FINGERPRINT = "left(encode(sha256(%(names_key)s || convert_to({0}, 'UTF8')), 'hex'), 32)::uuid"
"""SQL of `fingerprint`, of an expression that is the kind, a colon and the name."""


def names_key(workspace_id: uuid.UUID) -> bytes:
    """32 bytes, of this workspace in this installation: they change with RECKONER_API_KEY_PEPPER."""
    return secret_hmac(f"erased names:{workspace_id}")


def fingerprint(key: bytes, kind: str, name: str) -> uuid.UUID:
    """The first 128 bits of SHA-256 over the key, the kind and the name."""
    return uuid.UUID(hashlib.sha256(key + f"{kind}:{name}".encode()).hexdigest()[:32])


def episode_name(agent: uuid.UUID, name: str) -> str:
    """Names of episodes are an agent's."""
    return f"{agent}:{name}"


def feedback_name(unit: str, key: str) -> str:
    """Idempotency keys of feedback on units are a unit's."""
    return f"{len(unit)}:{unit}:{key}"


def find_erased(workspace: Workspace, kind: str, names: Iterable[str]) -> dict[str, uuid.UUID | None]:
    """Those of the names that were erased, with what they led to. One query by primary key, none without names."""
    named = set(names)
    if not named:
        return {}
    key = names_key(workspace.id)
    marks = {fingerprint(key, kind, name): name for name in named}
    found = ErasedName.objects.for_workspace(workspace).filter(id__in=marks).values_list("id", "target")
    return {marks[mark]: target for mark, target in found}
