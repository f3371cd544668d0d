"""An answer that is sent while it grows. Its last event follows the decision's commit; who leaves is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError
from starlette.types import Receive, Scope, Send

from decisions.chats.answering import Begun, Ended, fail_chat, leave_chat, record_chat
from decisions.chats.completions import Shape
from decisions.chats.faults import as_openai
from models_registry.backends.chatting import Streamed
from models_registry.errors import BackendUnavailable
from project.gateway.database import Database
from workspaces.errors import ReckonerError, Unavailable

HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # a proxy that gathers an answer would hold up its pieces
}

log = structlog.get_logger(__name__)


class _Gone(Exception):
    """The client does not take what is sent to it."""


class EventStream:
    """An ASGI answer. `leaving` is done when the client is gone; `done` is called at the end, whatever it was."""

    def __init__(
        self,
        database: Database,
        begun: Begun,
        streamed: Streamed,
        ended: Ended,
        shape: Shape,
        leaving: asyncio.Future[None],
        headers: dict[str, str],
        done: Callable[[], None],
    ) -> None:
        self._database, self._begun, self._streamed, self._ended = database, begun, streamed, ended
        self._shape, self._leaving, self._done = shape, leaving, done
        self._headers = headers | HEADERS
        self._recording: asyncio.Future[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        telling = asyncio.ensure_future(self._tell(send))
        try:
            await asyncio.wait({telling, self._leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not telling.done():
                telling.cancel()
                await asyncio.wait({telling})
                await self._streamed.close()
            if telling.cancelled() or isinstance(telling.exception(), _Gone):
                await self._leave()
            else:
                telling.result()
        finally:
            self._leaving.cancel()
            self._done()
            await self._streamed.close()

    async def _tell(self, send: Send) -> None:
        headers = [(name.encode(), value.encode()) for name, value in self._headers.items()]
        await _put(send, {"type": "http.response.start", "status": 200, "headers": headers})
        try:
            await self._send(send, self._shape.begin(self._ended))
            async for chunk in self._streamed.chunks:
                self._ended.written.take_chunk(chunk)
                await self._send(send, self._shape.grow(chunk))
            # A client that leaves now does not undo it.
            self._recording = asyncio.ensure_future(
                self._database.run(record_chat, begun=self._begun, ended=self._ended)
            )
            await asyncio.shield(self._recording)
        except (ReckonerError, DatabaseError, InterfaceError) as error:
            await self._fail(send, error)
        else:
            await self._send(send, self._shape.finish(self._ended))
        await _put(send, {"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, events: Iterator[bytes]) -> None:
        for told in events:
            await _put(send, {"type": "http.response.body", "body": told, "more_body": True})

    async def _fail(self, send: Send, error: Exception) -> None:
        told = error if isinstance(error, ReckonerError) else Unavailable("The database does not answer.")
        log.warning("chat_broken_off", call=str(self._begun.id), error=str(error)[:300])
        try:
            unanswered = isinstance(error, BackendUnavailable)
            backend = self._ended.attempt.place.endpoint.backend
            await self._database.run(
                fail_chat, begun=self._begun, reason=told.message, unanswered=unanswered, backend=backend
            )
        except (DatabaseError, InterfaceError):
            log.exception("call_left_open", call=str(self._begun.id))  # the sweeper finds it
        await self._send(send, self._shape.break_off(as_openai(told)[1]))

    async def _leave(self) -> None:
        try:
            if self._recording is not None:
                await self._recording
            else:
                await self._database.run(leave_chat, begun=self._begun, ended=self._ended)
        except (ReckonerError, DatabaseError, InterfaceError):
            log.exception("call_left_open", call=str(self._begun.id))


async def _put(send: Send, message: Any) -> None:
    """Raises _Gone for a client that takes nothing for so long."""
    try:
        async with asyncio.timeout(settings.SLOW_CLIENT_SECONDS):
            await send(message)
    except (OSError, TimeoutError) as error:
        raise _Gone from error
