"""HTTP routes of the model server: paths, the token, and the form of answers and errors.

Bad input never gets a 5xx. The two probes are open; everything else needs the token, when there is one.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from training.engine.serving.artifacts import Artifact, ArtifactStore
from training.engine.serving.chat_requests import READ_CHAT, ChatBody, chat_request_of
from training.engine.serving.completions import Completion
from training.engine.serving.faults import Code, Fault
from training.engine.serving.jobs import INTERNAL
from training.engine.serving.requests import READ_LOAD, READ_SCORE, parse, probe_of, questions_of
from training.engine.serving.streaming import answer_or_leave, stream_chat
from training.engine.serving.worker import ModelThread

log = logging.getLogger(__name__)

LARGEST_BODY = 8 << 20
DRAINED_BODY = 64 << 20
LATER, RETRY_SECONDS = (429, 503), 1
"""Statuses whose answers have a Retry-After, and what it says."""

Handler = Callable[[Request], Awaitable[Response]]


def build_app(store: ArtifactStore, models: ModelThread, token: str | None) -> Starlette:
    """The server's routes over a started or yet to be started model thread. `token` None leaves it open."""
    server = _Routes(store, models, token)
    guarded = server.guarded
    return Starlette(
        routes=[
            Route("/livez", server.livez),
            Route("/readyz", server.readyz),
            Route("/v1/models", guarded(server.list_models)),
            Route("/v1/models/{model}", guarded(server.show_model)),
            Route("/v1/chat/completions", guarded(server.chat), methods=["POST"]),
            Route("/score", guarded(server.score), methods=["POST"]),
            Route("/load", guarded(server.load), methods=["POST"]),
        ],
        exception_handlers={HTTPException: _refuse_http, Exception: _refuse_unforeseen},
    )


class _Routes:
    def __init__(self, store: ArtifactStore, models: ModelThread, token: str | None) -> None:
        self.store = store
        self.models = models
        self.token = token.encode() if token else None

    def guarded(self, handler: Handler) -> Handler:
        """Checks the token first, and turns Faults into answers."""

        async def guard(request: Request) -> Response:
            try:
                self._authenticate(request)
                return await handler(request)
            except Fault as fault:
                return _refusal(fault)

        return guard

    def _authenticate(self, request: Request) -> None:
        if self.token is None:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self.token):
            raise Fault("unauthorised", "send the model server's token as Authorization: Bearer …")

    async def livez(self, request: Request) -> Response:
        """The process answers."""
        return _answer({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """It can serve: the model thread runs and the store is there. 503 otherwise."""
        if not self.models.is_alive():
            return _answer({"status": "model thread is not running"}, status=503)
        if not await asyncio.to_thread(self.store.is_there):
            return _answer({"status": "artifact store is not there"}, status=503)
        return _answer(
            {
                "status": "ready",
                "loaded": len(self.models.pool.resident()),
                "waiting": self.models.waiting(),
                "answering": self.models.answering(),
            }
        )

    async def list_models(self, request: Request) -> Response:
        found = await asyncio.to_thread(lambda: list(self.store.served()))
        resident = self.models.pool.resident()
        return _answer({"object": "list", "data": [_model(artifact, resident) for artifact in found]})

    async def show_model(self, request: Request) -> Response:
        artifact = await asyncio.to_thread(self.store.find_served, request.path_params["model"])
        return _answer(_model(artifact, self.models.pool.resident()))

    async def load(self, request: Request) -> Response:
        """Loads the model, and has it answer once: some load and cannot score."""
        body = parse(await _body(request), READ_LOAD)
        artifact = await asyncio.to_thread(self.store.find_served, body.model)
        await asyncio.wrap_future(self.models.submit_load(body.model))
        (answer,) = await asyncio.wrap_future(self.models.submit_score([probe_of(body.model)]))
        if isinstance(answer, Fault):
            raise answer
        return _answer({"model": artifact.digest, "kind": artifact.kind, "base": artifact.base})

    async def score(self, request: Request) -> Response:
        """One result an item, in order. When every item fails for one reason, that reason is the status."""
        questions = questions_of(parse(await _body(request), READ_SCORE))
        answers = await asyncio.wrap_future(self.models.submit_score(questions))
        results: list[dict[str, Any]] = [
            {"error": answer.as_body()}
            if isinstance(answer, Fault)
            else {"probabilities": answer, "model": question.model}
            for question, answer in zip(questions, answers, strict=True)
        ]
        faults = [answer for answer in answers if isinstance(answer, Fault)]
        if len(faults) == len(answers) and len({fault.code for fault in faults}) == 1:
            return _answer({"error": faults[0].as_body(), "results": results}, status=faults[0].status)
        return _answer({"results": results})

    async def chat(self, request: Request) -> Response:
        """A schema may be large, and compiling it slow: that happens beside the event loop."""
        body = parse(await _body(request), READ_CHAT)
        asked = await asyncio.to_thread(chat_request_of, body) if _is_formed(body) else chat_request_of(body)
        if body.stream:
            with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
            return await stream_chat(self.models, asked, with_usage=with_usage)
        if body.stream_options is not None:
            raise Fault("invalid_request", "stream_options belongs to a stream", "stream_options")
        answer = await answer_or_leave(request, self.models.submit_chat(asked))
        return _answer(Completion(asked).whole(answer))


def _is_formed(body: ChatBody) -> bool:
    return body.response_format is not None or body.structured_outputs is not None or bool(body.tools)


async def _body(request: Request) -> bytes:
    """Read as it arrives. Of a body too large the rest is read and dropped: a client hears only when it has spoken."""
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size <= LARGEST_BODY:
                chunks.append(chunk)
            elif size > DRAINED_BODY:
                break
    except ClientDisconnect as error:
        raise Fault("invalid_request", "the body ended early") from error
    if size > LARGEST_BODY:
        raise Fault("request_too_large", f"a body may have {LARGEST_BODY} bytes")
    return b"".join(chunks)


def _model(artifact: Artifact, resident: frozenset[str]) -> dict[str, Any]:
    return {
        "id": artifact.digest,
        "object": "model",
        "created": artifact.created,
        "owned_by": "reckoner",
        "kind": artifact.kind,
        "base": artifact.base,
        "loaded": artifact.digest in resident,
    }


def _answer(body: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    if status in LATER:
        headers = {"retry-after": str(RETRY_SECONDS)} | (headers or {})
    return Response(msgspec.json.encode(body), status, headers, media_type="application/json")


def _refusal(fault: Fault) -> Response:
    headers = {"www-authenticate": "Bearer"} if fault.code == "unauthorised" else None
    return _answer({"error": fault.as_body()}, status=fault.status, headers=headers)


async def _refuse_http(request: Request, error: Exception) -> Response:
    """Starlette's own refusals, in the same envelope."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    code: Code = {404: "not_found", 405: "method_not_allowed"}.get(status, "invalid_request")  # type: ignore[assignment]
    message = f"{request.method} {request.url.path[:200]} is not served here"
    return _answer({"error": Fault(code, message).as_body()}, status=status)


async def _refuse_unforeseen(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _refusal(INTERNAL)
