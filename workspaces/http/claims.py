"""Claims of an `Idempotency-Key` by requests that are answered outside Django's views, as the gateway's chats are.

A claim keeps no answer. Its id decides the ids of what the request makes (`idempotency.made_id`), so whoever repeats
the request finds that, and answers it. A request that made nothing gives its claim back.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone
from xxhash import xxh3_128

from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InFlight, InvalidInput, KeyReused
from workspaces.http.idempotency import CLAIMED, HEADER, IN_FLIGHT, USABLE, Kept, keep_answer, lock_key
from workspaces.models import KeptAnswer
from workspaces.storage.ids import uuid7

OTHER_REQUEST = "This Idempotency-Key was used for another request. Send a new key."


@dataclass(frozen=True, slots=True)
class Claim:
    """`is_repeat`: the first request with the key was answered."""

    id: uuid.UUID
    is_repeat: bool = False


def read_key(key: str) -> str:
    """Raises InvalidInput."""
    if not USABLE.match(key):
        fault = FieldFault(HEADER, "is invalid", "1 to 255 visible ASCII characters")
        raise InvalidInput("The header is invalid.", faults=[fault])
    return key


def take_claim(
    *,
    by: Actor,
    key: str,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
    lasts: dt.timedelta,
    is_done: Callable[[uuid.UUID], bool],
) -> Claim:
    """`headers`: those that say more of what is asked, by their names. `is_done`: whether the request whose claim has
    this id has made what it was to make; one that has not within `lasts` was a killed process's. Raises InFlight,
    KeyReused."""
    lines = [f"POST {path}", *(f"{name}: {json.dumps(headers[name])}" for name in sorted(headers)), ""]
    digest = xxh3_128("\n".join(lines).encode() + body).digest()
    with transaction.atomic():
        kept, now = lock_key(by, key), timezone.now()
        if kept is not None:
            if kept.request_hash != digest:
                raise KeyReused(OTHER_REQUEST)
            if kept.status != CLAIMED or is_done(kept.id):
                return Claim(kept.id, is_repeat=True)
            if now - kept.created_at < lasts:
                raise InFlight(IN_FLIGHT)
        claim = Claim(uuid7())
        keep_answer(by, key, Kept(claim.id, digest, CLAIMED, "application/json", b"", now))
    return claim


def close_claim(claim: uuid.UUID, *, answered: bool) -> None:
    """Where nothing was answered, the same key is as if it were sent for the first time."""
    held = KeptAnswer.objects.filter(id=claim, status=CLAIMED)
    if answered:
        held.update(status=200)
    else:
        held.delete()
