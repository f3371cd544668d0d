"""Keeps objects made of rows in a process for as long as the rows are unchanged.

Each use still asks whether the row has changed, but that query only reads where the row lies and which transaction
wrote it: every change moves it. So nothing is ever out of date, and what is saved is making model objects, which costs
a request more than the query. PURE.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

STAMP = "{0}.ctid::text || '/' || {0}.xmin::text"
"""SQL: the stamp of the row of table or alias {0}."""


class RowCache(Generic[T]):
    """At most `most` objects, shared by the threads; whoever gets one must not change it."""

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._kept: dict[Hashable, tuple[str, T]] = {}

    def find(self, key: Hashable, stamp: str) -> T | None:
        """What was kept under `key` if its rows still have this stamp."""
        found = self._kept.get(key)
        return found[1] if found is not None and found[0] == stamp else None

    def keep(self, key: Hashable, stamp: str, made: T) -> None:
        """`stamp` was read before what `made` is made of, never after it."""
        if len(self._kept) >= self._most:
            self._kept.clear()
        self._kept[key] = (stamp, made)
