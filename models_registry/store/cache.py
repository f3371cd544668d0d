"""Copies of a remote store's artifacts on the local disk: each is there whole or not at all, and those that nobody has
used for longest go when there are too many bytes.

Several processes share a cache. `used/<digest>` is an empty file: its time says when the artifact was used last. Who
reads holds a shared lock on it (flock), which ends with the process. What is locked, or was used within the last hour,
is not evicted.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models_registry.store.layout import MANIFEST
from models_registry.store.local import LocalStore

# Who asked for a path without a lock opens its files within this time.
IDLE_SECONDS = 3600.0


class Cache(LocalStore):
    """At most `limit` bytes, but for what cannot be evicted now."""

    def __init__(self, root: Path, limit: int) -> None:
        super().__init__(root)
        self.limit = limit

    def find(self, digest: str) -> Path | None:
        """The folder where it is there, and notes the use."""
        folder = self.place(digest)
        if not (folder / MANIFEST).is_file():
            return None
        self._mark(digest).touch()
        return folder

    def _mark(self, digest: str) -> Path:
        path = self.root / "used" / self.place(digest).name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @contextmanager
    def hold(self, digest: str) -> Iterator[Path | None]:
        """The folder, which stays until the end of the block; None where it is not there."""
        with self._mark(digest).open("ab") as mark:
            fcntl.flock(mark, fcntl.LOCK_SH)
            yield self.find(digest)

    @contextmanager
    def fetching(self, digest: str) -> Iterator[None]:
        """One process at a time fetches an artifact; the others wait, and find it."""
        self.incoming.mkdir(parents=True, exist_ok=True)
        with (self.incoming / f"fetch-{digest}.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def make_room(self, needed: int = 0, *, now: float | None = None) -> int:
        """Evicts the least recently used until `needed` more bytes fit; returns how many artifacts went."""
        idle_since = (time.time() if now is None else now) - IDLE_SECONDS
        entries = sorted(self._measure())
        total = needed + sum(size for _, size, _ in entries)
        evicted = 0
        for used, size, digest in entries:
            if total <= self.limit or used > idle_since:
                break
            if self._evict(digest):
                total -= size
                evicted += 1
        return evicted

    def _measure(self) -> Iterator[tuple[float, int, str]]:
        """Last use, bytes and digest of each artifact; the sizes are the manifest's."""
        for path in self.root.glob(f"sha256/??/*/{MANIFEST}"):
            try:
                files = json.loads(path.read_bytes())["files"]
                used = self._mark(path.parent.name).stat().st_mtime
            except FileNotFoundError:  # just evicted, or nobody has used it yet
                continue
            yield used, sum(int(entry["size"]) for entry in files.values()), path.parent.name

    def _evict(self, digest: str) -> bool:
        """False where somebody reads it, or it went."""
        with self._mark(digest).open("ab") as mark:
            try:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return self.remove(digest)
