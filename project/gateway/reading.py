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

from project.gateway.streams import cut_off

MOST_UNREAD = 2_048
MOST_OF_ADDRESS = 512
"""All clients behind one proxy have its address."""


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
