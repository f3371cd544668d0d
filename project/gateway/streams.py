"""An answer that is sent while it grows. Its last event follows the decision's commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiohttp import web
from django.conf import settings

from decisions.chats.answering import Ended
from decisions.chats.completions import Shape
from decisions.chats.faults import as_openai
from models_registry.backends.chatting import Streamed
from workspaces.errors import ReckonerError, Unavailable

HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "x-accel-buffering": "no",  # a proxy that gathers an answer would hold up its pieces
}


class Gone(Exception):
    """The client neither sends nor takes anything."""


def cut_off(request: web.Request) -> Gone:
    """Closes the connection at once."""
    if request.transport is not None:
        request.transport.abort()
    return Gone()


class EventStream:
    """`tell`, then `finish` or `break_off`. All raise Gone."""

    def __init__(self, request: web.Request, shape: Shape, headers: dict[str, str]) -> None:
        self._request, self._shape = request, shape
        self._response = web.StreamResponse(headers=headers | HEADERS)

    async def tell(self, streamed: Streamed, ended: Ended) -> None:
        """All pieces, as they come; `ended` gathers them. Raises BackendUnavailable."""
        try:
            await self._send(self._shape.begin(ended))
            async for chunks in streamed.chunks:
                for chunk in chunks:
                    ended.written.take_chunk(chunk)
                await self._send(event for chunk in chunks for event in self._shape.grow(chunk))
        finally:
            await streamed.close()

    async def finish(self, ended: Ended) -> web.StreamResponse:
        return await self._end(self._shape.finish(ended))

    async def break_off(self, error: Exception) -> web.StreamResponse:
        told = error if isinstance(error, ReckonerError) else Unavailable("The gateway failed.")
        return await self._end(self._shape.break_off(as_openai(told)[1]))

    async def _end(self, events: Iterable[bytes]) -> web.StreamResponse:
        await self._send(events, last=True)
        return self._response

    async def _send(self, events: Iterable[bytes], *, last: bool = False) -> None:
        told = b"".join(events)
        try:
            async with asyncio.timeout(settings.SLOW_CLIENT_SECONDS):
                if not self._response.prepared:
                    await self._response.prepare(self._request)
                if last:
                    await self._response.write_eof(told)
                elif told:
                    await self._response.write(told)
        except (OSError, TimeoutError) as error:
            raise cut_off(self._request) from error
