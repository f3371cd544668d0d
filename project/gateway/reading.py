"""Bodies that have not arrived yet: how many there may be at once, and whose are cut off.

Whoever opens a connection may send slowly, without any key. So a body that is read holds no place among the chats. Of
one address there are few at once, as an ordinary client needs milliseconds for one, and few of all addresses together:
a further one takes the place of the oldest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web
from django.conf import settings

from project.gateway.held_bodies import HeldBody
from project.gateway.streams import cut_off
from workspaces.errors import TooLarge

MOST_UNREAD = 2_048
MOST_OF_ADDRESS = 512
"""All clients behind one proxy have its address."""


async def read_body(request: web.Request, held: HeldBody) -> bytes:
    """The body, whose room in memory is taken before it comes, as far as its length is known. The request does not keep
    it. Raises TooLarge, TooManyRequests, Full."""
    body = bytearray()
    _refuse_beyond_most(request.content_length or 0)
    held.grow_to(request.content_length or 0)
    async for piece in request.content.iter_any():
        body += piece
        _refuse_beyond_most(len(body))
        held.grow_to(len(body))
    return bytes(body)


def _refuse_beyond_most(size: int) -> None:
    if size > settings.CHAT_BODY_BYTES:
        raise TooLarge(f"The body has more than {settings.CHAT_BODY_BYTES} bytes.")


class Reading:
    """The requests whose bodies are being read, the oldest first."""

    def __init__(self, *, most: int = MOST_UNREAD, of_address: int = MOST_OF_ADDRESS) -> None:
        self._most, self._of_address = most, of_address
        self._unread: dict[int, tuple[web.Request, str]] = {}  # a request has no hash
        self._addresses: Counter[str] = Counter()

    @contextmanager
    def place_for(self, request: web.Request) -> Iterator[None]:
        """A place while the body is read; the oldest of the address, or of all, loses its own where there is none."""
        address = request.remote or ""
        if self._addresses[address] >= self._of_address:
            self._cut_oldest(address)
        elif len(self._unread) >= self._most:
            self._cut_oldest(None)
        self._unread[id(request)] = request, address
        self._addresses[address] += 1
        try:
            yield
        finally:
            self._drop(request)

    def _cut_oldest(self, address: str | None) -> None:
        oldest = next(one for one, its in self._unread.values() if address in (None, its))
        self._drop(oldest)
        cut_off(oldest)

    def _drop(self, request: web.Request) -> None:
        if (kept := self._unread.pop(id(request), None)) is None:
            return
        address = kept[1]
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]
