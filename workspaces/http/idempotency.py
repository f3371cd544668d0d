"""`Idempotency-Key`: a repeated request gets the first answer, and nothing happens twice.

One middleware serves every POST of the API, so that no endpoint can forget it. The answer is written in the transaction
of its effect: a process that is killed in between leaves neither, and the repeat does the work. An advisory lock of
that transaction marks the first request as in flight; it ends with the transaction.

A view that waits for a model (`calls_out`) must not keep a transaction open meanwhile. Its request claims the key in a
transaction of its own and makes its rows under ids that follow from the claim (`made_id`). A repeat makes the same ids,
finds what is there, and answers that, so a claim keeps no answer.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from xxhash import xxh3_128

from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InFlight, InvalidInput, KeyReused, ReckonerError, Unavailable
from workspaces.http.api_errors import json_error
from workspaces.http.parsing import MAX_BATCH
from workspaces.models import KeptAnswer
from workspaces.storage.full_disk import find_full_disk
from workspaces.storage.ids import uuid7, uuid7_of, uuid7_time

logger = structlog.get_logger(__name__)
HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
IN_FLIGHT = "The first request with this Idempotency-Key is still being processed. Retry later."
CLAIMED = 102
USABLE = re.compile(r"^[\x21-\x7e]{1,255}$")


class IdempotencyMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> HttpResponse | None:
        """None lets the request take its usual way: no key, no API, nobody, or a request that the view will refuse."""
        key = request.META.get("HTTP_IDEMPOTENCY_KEY")
        if key is None or request.method != "POST" or not hasattr(getattr(view, "view_class", None), "scopes"):
            return None
        try:
            if not USABLE.match(key):
                fault = FieldFault(HEADER, "is invalid", "1 to 255 visible ASCII characters")
                raise InvalidInput("The header is invalid.", faults=[fault])
            actor = _authenticate(request, view.view_class.authentication_classes)  # type: ignore[attr-defined]
            scope = view.view_class.scopes.get("POST")  # type: ignore[attr-defined]
            if actor is None or scope is None or not actor.may(scope):
                return None  # nor do old answers come again to who has lost a role
            if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_BATCH:
                return None

            def ask() -> Any:
                return view(request, *args, **kwargs)

            if getattr(view.view_class, "calls_out", False):  # type: ignore[attr-defined]
                return _answer_claimed(request, actor, key, ask)
            return _answer_once(request, actor, key, ask)
        except ReckonerError as error:
            return json_error(request, error)
        except (OperationalError, InterfaceError) as error:
            if (full := find_full_disk(error)) is not None:
                return json_error(request, full)
            logger.error("database_unavailable")
            return json_error(request, Unavailable("The database does not answer. Send the same request again."))


def _authenticate(request: HttpRequest, ways: Sequence[type[BaseAuthentication]]) -> Actor | None:
    """None where the view will turn the request away. The view does not ask the database for the key again."""
    # Not by `Request.user`, which would replace the session's person by the actor.
    asked = Request(request)
    asked.parser_context.clear()  # it refers to itself by it, and would keep the body until cycles are collected
    try:
        for way in ways:
            if (found := way().authenticate(asked)) is not None:
                return found[0] if isinstance(found[0], Actor) else None
    except APIException:
        return None
    return None


def _answer_once(request: HttpRequest, actor: Actor, key: str, ask: Callable[[], Any]) -> HttpResponse:
    """Raises InFlight, KeyReused, and what a database that is away raises, at the commit too."""
    digest = _request_hash(request)
    with transaction.atomic():
        kept = lock_key(actor, key)
        if kept is not None:
            return _replay(kept, digest)
        response = ask()
        if hasattr(response, "render"):
            response.render()
        # A failure had no effect, so the same key may be sent again.
        if 200 <= response.status_code < 300:
            if connection.needs_rollback:
                raise DatabaseError("the view answered, but its transaction had failed")
            # A view whose answer holds a secret says what to keep instead.
            body = getattr(response, "kept_content", None) or response.content
            kind = response.headers.get("Content-Type", "application/json")
            keep_answer(actor, key, Kept(uuid7(), digest, response.status_code, kind, body, timezone.now()))
        return response


def _answer_claimed(request: HttpRequest, actor: Actor, key: str, ask: Callable[[], Any]) -> HttpResponse:
    """Raises InFlight, KeyReused."""
    digest, claim_time = _request_hash(request), dt.timedelta(seconds=settings.IDEMPOTENCY_CLAIM_SECONDS)
    with transaction.atomic():
        kept, now = lock_key(actor, key), timezone.now()
        if kept is None:
            claim = uuid7()
            keep_answer(actor, key, Kept(claim, digest, CLAIMED, "application/json", b"", now))
        elif kept.request_hash != digest or kept.body:
            return _replay(kept, digest)
        elif kept.status == CLAIMED and now - kept.created_at < claim_time:
            raise InFlight(IN_FLIGHT)
        else:
            claim = kept.id
            if kept.status == CLAIMED:  # its holder was killed, or could not answer
                KeptAnswer.objects.filter(id=claim).update(created_at=now)
    request.idempotency_claim = claim  # type: ignore[attr-defined]
    status = 500
    try:
        response: HttpResponse = ask()
        status = response.status_code
    finally:
        held = KeptAnswer.objects.filter(id=claim, status=CLAIMED)
        if 200 <= status < 300:
            held.update(status=status)
        elif status < 500 and kept is None:
            held.delete()  # a refusal of the first request: nothing was done
        else:
            held.update(created_at=timezone.now() - claim_time)  # a repeat finds what it did, if anything
    if kept is not None and kept.status != CLAIMED and status < 300:
        response[REPLAYED] = "true"
    return response


def made_id(claim: uuid.UUID, number: int) -> uuid.UUID:
    """The id of the `number`-th thing that a claimed request makes: the same in every repeat."""
    moment = uuid7_time(claim)
    assert moment is not None
    return uuid7_of(moment, claim.bytes + number.to_bytes(4, "big"))


def answer_lifetime() -> dt.timedelta:
    """How long an answer is kept."""
    return dt.timedelta(hours=settings.IDEMPOTENCY_HOURS)


def _request_hash(request: HttpRequest) -> bytes:
    """XXH3 of 128 bits: it finds a key that is used twice by mistake, and only among what one sender asked."""
    digest = xxh3_128(f"{request.method} {request.get_full_path()}\n".encode())
    digest.update(request.body)
    return digest.digest()


# Two statements in one round trip, each with a snapshot of its own: the next holder of the lock sees the answer that
# the first request wrote.
_LOCK = """
SELECT pg_try_advisory_xact_lock(%s);
SELECT id, request_hash, status, content_type, body, created_at FROM workspaces_keptanswer
 WHERE workspace_id = %s AND sender = %s AND key = %s AND created_at > %s
"""
# An expired entry under this key that has not been swept yet.
_KEEP = """
INSERT INTO workspaces_keptanswer (id, workspace_id, sender, key, request_hash, status, content_type, body, created_at)
VALUES (%s, %s, %s, %s, %b, %s, %s, %b, %s)
ON CONFLICT (workspace_id, sender, key) DO UPDATE
   SET id = excluded.id, request_hash = excluded.request_hash, status = excluded.status,
       content_type = excluded.content_type, body = excluded.body, created_at = excluded.created_at
"""


@dataclass(frozen=True, slots=True)
class Kept:
    id: uuid.UUID
    request_hash: bytes
    status: int
    content_type: str
    body: bytes
    created_at: dt.datetime


def lock_key(actor: Actor, key: str) -> Kept | None:
    """What was answered to the first request with this key. Until the transaction ends no other request has it.

    Raises InFlight.
    """
    name = f"idempotency {actor.workspace.id} {actor.name} {key}"
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [number, actor.workspace.id, actor.name, key, timezone.now() - answer_lifetime()])
        if not cursor.fetchone()[0]:
            raise InFlight(IN_FLIGHT)
        cursor.nextset()
        row = cursor.fetchone()
    return None if row is None else Kept(row[0], bytes(row[1]), row[2], row[3], bytes(row[4]), row[5])


def _replay(kept: Kept, digest: bytes) -> HttpResponse:
    if kept.request_hash != digest:
        raise KeyReused("This Idempotency-Key was used for another request. Send a new key.")
    response = HttpResponse(kept.body, status=kept.status, content_type=kept.content_type)
    response[REPLAYED] = "true"
    return response


def keep_answer(actor: Actor, key: str, kept: Kept) -> None:
    told = [kept.request_hash, kept.status, kept.content_type, kept.body, kept.created_at]
    values = [kept.id, actor.workspace.id, actor.name, key, *told]
    # Bound by the server: inside the statement's text, an answer for a thousand items would be parsed as SQL.
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        cursor.execute(_KEEP, values)


def drop_old_answers() -> int:
    """How many were kept for long enough; beat asks every hour."""
    return KeptAnswer.objects.filter(created_at__lte=timezone.now() - answer_lifetime()).delete()[0]
