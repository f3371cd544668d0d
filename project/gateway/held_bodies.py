"""The memory that bodies of chats may take: how much there is of it, and each workspace's and key's share.

A body is in memory from its arrival until its chat is answered, which takes minutes where a model is slow. A workspace
may fill half of what the others have left, and a key half of what the other keys of its workspace have left of that:
however many ask for more, there is room for one who has not asked yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from workspaces.access.actors import Actor
from workspaces.errors import ReckonerError, TooManyRequests, Unavailable
from workspaces.http.api_errors import RETRY_SECONDS

Owner = tuple[str, ...]
"""A workspace and a key of it."""


class Full(Unavailable):
    """The gateway has as many chats, or bytes of them, as it may have."""


class HeldBodies:
    """The bodies of one process, of `most` bytes together. For its event loop alone."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: Counter[Owner] = Counter()
        """Bytes of all bodies under (), of each workspace, and of each key."""

    @contextmanager
    def hold(self) -> Iterator[HeldBody]:
        """A body that has not arrived; at the end its room is free again."""
        body = HeldBody(self)
        try:
            yield body
        finally:
            if body.owner is not None:
                self._add(body.owner, -body.size)

    def take(self, owner: Owner, size: int) -> None:
        """Raises TooManyRequests where the key has bodies here that are in the way, else Full."""
        if self._held[owner] + size > self._share_of(owner):
            raise self._refusal(owner)
        self._add(owner, size)

    def _share_of(self, owner: Owner) -> int:
        share = self._most
        for end in range(len(owner)):
            of_others = self._held[owner[:end]] - self._held[owner[: end + 1]]
            share = (share - of_others) // 2
        return share

    def _refusal(self, owner: Owner) -> ReckonerError:
        if not (held := self._held[owner]):
            return Full("The gateway has no room for so large a chat now. Send the same request again later.")
        return TooManyRequests(
            f"The chats of this key that are being answered have {held} bytes, and there is no room for another of "
            "this size. Wait for the time in Retry-After.",
            wait=RETRY_SECONDS,
        )

    def _add(self, owner: Owner, size: int) -> None:
        for end in range(len(owner) + 1) if size else ():
            self._held[owner[:end]] += size
            if not self._held[owner[:end]]:
                del self._held[owner[:end]]


class HeldBody:
    """One body. It takes no room before `belongs_to` says whose it is: small ones need none."""

    def __init__(self, bodies: HeldBodies) -> None:
        self._bodies = bodies
        self.owner: Owner | None = None
        self.size = 0

    def belongs_to(self, by: Actor) -> None:
        self.owner = (str(by.workspace.id), by.name)

    def grow_to(self, size: int) -> None:
        """Raises TooManyRequests, Full."""
        if self.owner is not None and size > self.size:
            self._bodies.take(self.owner, size - self.size)
            self.size = size
