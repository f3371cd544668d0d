"""The gateway's routes: who asks, what goes to which service, and the shape of answers and refusals."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
import structlog
from aiohttp import web
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from decisions.chats.answering import (
    About,
    Begun,
    Ended,
    begin_chat,
    cut_chat,
    fail_chat,
    find_model,
    leave_chat,
    list_models,
    record_chat,
)
from decisions.chats.completions import ChatShape, Shape
from decisions.chats.faults import as_openai, body_of, rate_headers
from decisions.chats.item_references import has_references, replace_references
from decisions.chats.recalling import as_chunks
from decisions.chats.repeating import claim_chat, decision_of, repeat_chat
from decisions.chats.requests import Chat, read_chat, read_json
from decisions.chats.responses import ResponseShape, read_response
from decisions.chats.standing import OutOfDate, keep_standing, recall_standing
from decisions.chats.written import Written
from models_registry.backends.chatting import Answered, ChatClients, Streamed
from models_registry.errors import BackendUnavailable, ChatRefused
from models_registry.models import CallKind
from project.gateway.database import Database
from project.gateway.document import CACHED, DECISION_ID, build_document
from project.gateway.held_bodies import Full, HeldBodies, HeldBody
from project.gateway.reading import Reading, read_body
from project.gateway.streams import EventStream, Gone, cut_off
from project.logging import request_logger
from workspaces.access import actors
from workspaces.access.services import find_key
from workspaces.errors import FieldFault, InvalidInput, NotAllowed, ReckonerError, Unavailable
from workspaces.http.api_errors import LATER, RETRY_SECONDS
from workspaces.http.claims import close_claim, read_key
from workspaces.http.idempotency import REPLAYED
from workspaces.http.throttling import count_request, find_allowance
from workspaces.models import ApiKey, Scope
from workspaces.storage.full_disk import find_full_disk
from workspaces.storage.ids import uuid7

T = TypeVar("T")
Read = Callable[[Mapping[str, Any]], Chat]
ShapeOf = Callable[[Begun, Mapping[str, Any]], Shape]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ABOUT = {
    "unit": "x-reckoner-unit",
    "episode": "x-reckoner-episode",
    "item_ref": "x-reckoner-item",
    "project_ref": "x-reckoner-project",
    "user_ref": "x-reckoner-user",
    "external_id": "x-reckoner-external-id",
}
LONGEST_NAME = 200
SMALL_BODY = 1 << 16
"""Bytes that anybody may send before the key is looked at."""
USABLE_ID = re.compile(r"^[A-Za-z0-9._-]{1,64}$")
REQUEST_ID = web.RequestKey("request_id", str)
LEFT = 499
"""What the log says of a client who left; nobody gets it."""
SETTLE_SECONDS = 3.0
"""How long the database may take for all calls that a stop cuts short."""
STOPPING = "The gateway is stopping. Send the same request again."
STOPPED = "The gateway was stopped."

log = structlog.get_logger(__name__)
request_log = request_logger(__name__)


class BadKey(Exception):
    """Nobody may ask with this. Its text says why."""


class Gateway:
    """The routes, with what they share: the database's threads and the connections to models."""

    def __init__(self) -> None:
        self.database, self.clients = Database(), ChatClients()
        self.reading, self.bodies = Reading(), HeldBodies(settings.CHATS_BYTES)
        self.answering = set[asyncio.Task[Any]]()
        self.stopping = False

    def build_app(self) -> web.Application:
        app = web.Application(middlewares=[self._around])
        app.add_routes(
            [
                web.get("/livez", self.livez),
                web.get("/readyz", self.readyz),
                web.get("/openapi.json", self.show_document),
                web.get("/v1/models", self.list_models),
                web.get("/v1/models/{model:.+}", self.show_model),
                web.post("/v1/chat/completions", self.chat),
                web.post("/v1/responses", self.respond),
            ]
        )
        app.on_response_prepare.append(_add_headers)
        return app

    async def close(self, seconds: float) -> None:
        """Takes nothing new, and waits so long for answers that grow. Those that are not done then are cut short: their
        clients hear it, and their calls are settled like those of clients that leave."""
        self.stopping = True
        give_up = time.monotonic() + seconds
        while self.answering and time.monotonic() < give_up:
            await asyncio.sleep(0.05)
        if cut := list(self.answering):
            for task in cut:
                task.cancel()
            await asyncio.wait(cut, timeout=SETTLE_SECONDS)

    # Probes

    async def livez(self, request: web.Request) -> web.StreamResponse:
        return _json({"status": "ok"})

    async def readyz(self, request: web.Request) -> web.StreamResponse:
        """The database answers, and has the table of calls."""

        def look() -> None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM models_registry_call LIMIT 1")

        try:
            await self.database.run(look)
        except (DatabaseError, InterfaceError):
            return _json({"status": "unavailable", "database": "does not answer or is not migrated"}, 503)
        return _json({"status": "ok", "answering": len(self.answering)})

    async def show_document(self, request: web.Request) -> web.StreamResponse:
        return _json(build_document())

    # Models and chats

    async def list_models(self, request: web.Request) -> web.StreamResponse:
        def look(by: actors.Actor) -> list[dict[str, Any]]:
            return list_models(by=by)

        return _json({"object": "list", "data": await self._run_as(request, look)})

    async def show_model(self, request: web.Request) -> web.StreamResponse:
        def look(by: actors.Actor) -> dict[str, Any]:
            return find_model(by=by, reference=request.match_info["model"])

        return _json(await self._run_as(request, look))

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, CallKind.CHAT, read_chat, lambda begun, _: ChatShape(begun))

    async def respond(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, CallKind.RESPONSE, read_response, ResponseShape)

    async def _run_as(self, request: web.Request, work: Callable[[actors.Actor], T]) -> T:
        """The work for whoever asks, in one visit to a thread. Raises BadKey, NotAllowed, TooManyRequests."""
        token = _token_of(request)

        def run() -> tuple[str, T]:
            by = _admit(find_key(token))
            return by.name, work(by)

        name, done = await self.database.run(run)
        structlog.contextvars.bind_contextvars(actor=name)
        return done

    async def _answer(self, request: web.Request, kind: str, read: Read, shape_of: ShapeOf) -> web.StreamResponse:
        """A chat counts once it is whole: who sends slowly, or without a key, takes no place of another."""
        self._refuse_when_stopping()
        token, key = _token_of(request), _key_of(request)
        with self.bodies.hold() as held:
            sent = Sent(token, request.path, await self._read_body(request, token, held), key)
            self._refuse_when_stopping()  # after the last body's wait, too: nothing would settle its call
            if (count := len(self.answering)) >= settings.GATEWAY_CHATS:
                raise Full(f"The gateway is answering {count} chats, which is its limit. Try again later.")
            task = asyncio.current_task()
            assert task is not None
            self.answering.add(task)
            try:
                begun, shape = await self.database.run(_begin, sent, kind, _about(request), read, shape_of)
                del sent  # megabytes, perhaps, and the answer may take minutes
                return await self._answer_now(request, begun, shape)
            finally:
                self.answering.discard(task)

    def _refuse_when_stopping(self) -> None:
        """Raises Unavailable."""
        if self.stopping:
            raise Unavailable(STOPPING)

    async def _read_body(self, request: web.Request, token: str, held: HeldBody) -> bytes:
        """Raises BadKey, NotAllowed, TooLarge, InvalidInput, TooManyRequests, Full, and Gone for a client that needs
        too long for it, which is cut off. Only who has a key may send much."""
        if request.headers.get("content-encoding", "identity") != "identity":
            fault = FieldFault("content-encoding", "is not supported", "none")
            raise InvalidInput("The body is encoded.", faults=[fault])
        if request.content_length is None or request.content_length > SMALL_BODY:
            held.belongs_to(await self.database.run(lambda: _admit(find_key(token), counted=True)))
        try:
            with self.reading.place_for(request):
                async with asyncio.timeout(settings.SLOW_CLIENT_SECONDS):
                    return await read_body(request, held)
        except TimeoutError as error:
            raise cut_off(request) from error

    async def _answer_now(self, request: web.Request, begun: Begun, shape: Shape) -> web.StreamResponse:
        structlog.contextvars.bind_contextvars(actor=begun.by.name)
        headers = {DECISION_ID: str(begun.id), **rate_headers(find_allowance(begun.by))}
        if begun.is_repeat:
            headers[REPLAYED] = "true"
        elif begun.recalled is not None:
            headers[CACHED] = "true"
        answer: dict[str, Any] = {}
        stream: EventStream | None = None
        ended: Ended | None = None
        try:
            if begun.chat.stream:
                streamed = await self._ask_stream(begun)
                ended = Ended(Written(), streamed.attempt, streamed.failures, begun.moment)
                stream = EventStream(request, shape, headers)
                await stream.tell(streamed, ended)
            else:
                answered = await self._ask_whole(begun)
                answer = answered.answer
                ended = Ended(Written(), answered.attempt, answered.failures, begun.moment)
                ended.written.take_whole(answer)
            if not begun.is_repeat:
                await self.database.run(record_chat, begun=begun, ended=ended)
        except (asyncio.CancelledError, Gone) as cause:  # the client is gone, or the gateway stops
            cut = self.stopping and isinstance(cause, asyncio.CancelledError)
            if not begun.is_repeat:
                await self._leave(begun, ended, reason=STOPPED if cut else "")
            if not cut:
                raise
            if stream is None:
                raise Unavailable(STOPPING) from cause
            return await stream.break_off(Unavailable(STOPPING))
        except Exception as error:
            if not begun.is_repeat:
                await self._fail(begun, ended, error, grown=stream is not None)
            if stream is None:
                raise
            log.warning("chat_broken_off", call=str(begun.id), error=str(error)[:300])
            return await stream.break_off(error)
        return await stream.finish(ended) if stream else _json(shape.whole(answer, ended), headers=headers)

    async def _ask_whole(self, begun: Begun) -> Answered:
        if begun.recalled is not None:
            return Answered(begun.attempts[0], begun.recalled)
        return await self.clients.ask_whole(begun.attempts, begun.body, begun.waiting)

    async def _ask_stream(self, begun: Begun) -> Streamed:
        if begun.recalled is not None:
            return Streamed(begun.attempts[0], _at_once(as_chunks(begun.recalled)), None)
        return await self.clients.ask_stream(begun.attempts, begun.body, begun.waiting)

    async def _leave(self, begun: Begun, ended: Ended | None, *, reason: str) -> None:
        ended = ended if begun.chat.stream else None
        try:
            await self.database.run(leave_chat, begun=begun, ended=ended, reason=reason)
        except (ReckonerError, DatabaseError, InterfaceError):
            log.exception("call_left_open", call=str(begun.id))  # the sweeper finds it

    async def _fail(self, begun: Begun, ended: Ended | None, error: Exception, *, grown: bool) -> None:
        """`grown`: a stream had begun, whose words stay where its server broke off."""
        unanswered = isinstance(error, BackendUnavailable)
        reason, backend = f"The gateway failed: {type(error).__name__}.", None
        if isinstance(error, ChatRefused | BackendUnavailable):
            reason = error.message
            backend = ended.attempt.place.endpoint.backend if ended is not None else error.backend
        try:
            if grown and unanswered and ended is not None and not ended.written.is_empty:
                await self.database.run(cut_chat, begun=begun, ended=ended, reason=reason)
                return
            await self.database.run(
                fail_chat, begun=begun, reason=reason, unanswered=unanswered, backend=backend, ended=ended
            )
        except (DatabaseError, InterfaceError):
            log.exception("call_left_open", call=str(begun.id))

    # Around every route

    @web.middleware
    async def _around(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Every answer, refusal and fault passes here, and leaves a line in the log when it is over."""
        began = time.perf_counter()
        given = request.headers.get("x-request-id", "")
        request[REQUEST_ID] = given if USABLE_ID.match(given) else str(uuid7())
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request[REQUEST_ID])
        status = LEFT
        try:
            response = await _told(handler, request)
            status = response.status
            return response
        finally:
            if request.path not in ("/livez", "/readyz"):
                milliseconds = round((time.perf_counter() - began) * 1000, 1)
                told = {"method": request.method, "path": request.path[:200], "status": status, "ms": milliseconds}
                # The answer goes first.
                asyncio.get_running_loop().call_soon(lambda: request_log.info("request", **told))


@dataclass(frozen=True, slots=True)
class Sent:
    """What came in: whose it is, the path, the body, and the `Idempotency-Key`, None without one."""

    token: str
    path: str
    body: bytes
    key: str | None


def _begin(sent: Sent, kind: str, about: About, read: Read, shape_of: ShapeOf) -> tuple[Begun, Shape]:
    """Opens the call of a chat for whoever asks. Raises BadKey, NotAllowed, TooManyRequests, and as `begin_chat`."""
    token = sent.token
    try:
        given = read_json(sent.body)
        if kind == CallKind.RESPONSE and has_references(given):
            given = replace_references(by=_admit(find_key(token), counted=True), given=given)  # it is counted below
        chat = read(given)
    except ReckonerError:
        _admit(find_key(token))  # who may not ask at all hears only that
        raise
    if sent.key is not None:
        begun = _begin_once(_admit(find_key(token)), sent, sent.key, chat, kind, about)
        return begun, shape_of(begun, given)
    counted = False
    if (standing := recall_standing(token=token, slug=chat.model)) is not None:
        with contextlib.suppress(ReckonerError, OutOfDate):  # all is read anew, and says whether it is so
            by = _admit(standing.key)
            counted = True
            begun = begin_chat(by=by, chat=chat, kind=kind, about=about, standing=standing)
            return begun, shape_of(begun, given)
    begun = begin_chat(by=_admit(find_key(token), counted=counted), chat=chat, kind=kind, about=about)
    if chat.model == begun.request.current.agent.slug:
        keep_standing(token=token, slug=chat.model)
    return begun, shape_of(begun, given)


def _begin_once(by: actors.Actor, sent: Sent, key: str, chat: Chat, kind: str, about: About) -> Begun:
    """The chat under an `Idempotency-Key`, or the first one's answer. Raises InFlight, KeyReused, Erased,
    AgentNotAllowed, and as `begin_chat`."""
    said = {header: value for field, header in ABOUT.items() if (value := getattr(about, field)) is not None}
    claim = claim_chat(by=by, key=key, path=sent.path, headers=said, body=sent.body)
    if claim.is_repeat:
        return repeat_chat(by=by, chat=chat, decision_id=decision_of(claim.id))
    try:
        return begin_chat(by=by, chat=chat, kind=kind, about=replace(about, claim=claim.id))
    except BaseException:
        close_claim(claim.id, answered=False)
        raise


async def _told(handler: Handler, request: web.Request) -> web.StreamResponse:
    """The handler's answer, or its refusal."""
    try:
        return await handler(request)
    except ReckonerError as error:
        status, body, headers = as_openai(error)
        return _json(body, status, headers)
    except BadKey as error:
        body = body_of(str(error), kind="authentication_error", code="invalid_api_key")
        return _json(body, 401, {"www-authenticate": 'Bearer realm="api"'})
    except (DatabaseError, InterfaceError) as error:
        if (full := find_full_disk(error)) is not None:
            status, body, headers = as_openai(full)
            return _json(body, status, headers)
        log.error("database_unavailable", error=str(error).partition("\n")[0])
        return _json(as_openai(Unavailable("The database does not answer. Send the same request again."))[1], 503)
    except Gone:
        return web.Response(status=LEFT)
    except web.HTTPException as error:  # paths and methods that are not served
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status, "invalid_request")
        message = f"{request.method} {request.path[:200]} is not served here."
        return _json(body_of(message, kind="invalid_request_error", code=code), error.status)
    except Exception:
        log.exception("request_failed")
        return _json(body_of("The gateway failed.", kind="server_error", code="internal_error"), 500)


def _token_of(request: web.Request) -> str:
    """Raises BadKey, NotAllowed."""
    if settings.HTTPS and request.headers.get("x-forwarded-proto") != "https":
        raise NotAllowed("Call this address with https.")
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip() or not token.isascii():
        raise BadKey("Send the key as 'Authorization: Bearer PREFIX.SECRET'.")
    return token.strip()


def _key_of(request: web.Request) -> str | None:
    """Raises InvalidInput."""
    key = request.headers.get("idempotency-key")
    return None if key is None else read_key(key)


def _admit(key: ApiKey | None, *, counted: bool = False) -> actors.Actor:
    """Counts the request, unless it was. Raises BadKey, NotAllowed, TooManyRequests."""
    if key is None:
        raise BadKey("This key is unknown, expired or revoked.")
    by = actors.program(key)
    if not by.may(Scope.ROUTE_READ):
        raise NotAllowed(f"This call needs the scope {Scope.ROUTE_READ.value}.")
    if not counted:
        count_request(by)
    return by


def _about(request: web.Request) -> About:
    """Raises InvalidInput."""
    given: dict[str, Any] = {field: request.headers[name] for field, name in ABOUT.items() if request.headers.get(name)}
    faults = [
        FieldFault(ABOUT[field], f"has {len(value)} characters", f"up to {LONGEST_NAME}")
        for field, value in given.items()
        if len(value) > LONGEST_NAME
    ]
    # Bytes that are not UTF-8 have come as lone surrogates.
    faults += [
        FieldFault(ABOUT[field], "is not UTF-8", "a name in UTF-8")
        for field, value in given.items()
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value)
    ]
    if faults:
        raise InvalidInput("A header is invalid.", faults=faults)
    return About(**given, anew="no-cache" in request.headers.get("cache-control", "").lower())


async def _at_once(chunks: list[dict[str, Any]]) -> AsyncIterator[list[dict[str, Any]]]:
    yield chunks


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["x-request-id"] = request.get(REQUEST_ID, "")
    response.headers["cache-control"] = "no-store"
    response.headers["server"] = "reckoner"
    if response.status in LATER:
        response.headers.setdefault("retry-after", str(RETRY_SECONDS))


def _json(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, headers=headers, content_type="application/json")
