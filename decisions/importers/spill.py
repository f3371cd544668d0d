"""Groups rows that belong together on disk, so that memory stays constant for files of any size."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import msgspec

from decisions.importers.records import Place, Record, Refusal, Refused, object_of

LARGEST_GROUP = 20_000


@dataclass(frozen=True, slots=True)
class Spilled:
    """A row as it was added; `kind` says which of the format's tables it is of."""

    kind: str
    place: Place
    value: Any
    size: int


class Spill:
    """A temporary SQLite database, which SQLite itself deletes. Use it as a context."""

    def __init__(self) -> None:
        self._rows = sqlite3.connect("")  # no name: private, on disk, gone when it is closed
        self._rows.executescript(
            "PRAGMA cache_size = -8000; PRAGMA journal_mode = OFF;"
            "CREATE TABLE row (key TEXT, number INTEGER PRIMARY KEY, kind TEXT, file TEXT, line INTEGER, value BLOB);"
            "CREATE TABLE seen (digest BLOB PRIMARY KEY) WITHOUT ROWID;"
            "CREATE TABLE twin (digest BLOB PRIMARY KEY, times INTEGER) WITHOUT ROWID;"
        )

    def __enter__(self) -> Spill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rows.close()

    def add(self, key: str, kind: str, place: Place, value: Any) -> None:
        self._rows.execute(
            "INSERT INTO row (key, kind, file, line, value) VALUES (?, ?, ?, ?, ?)",
            [key, kind, place.file, place.line, msgspec.json.encode(value)],
        )

    def fill(
        self, records: Iterable[Record | Refusal], table_of: Callable[[dict[str, Any]], tuple[str, str]]
    ) -> Iterator[Refusal]:
        """Adds the records that are rows, and gives the others back. `table_of` finds a row's kind and key, or raises
        Refused."""
        for record in records:
            if isinstance(record, Refusal):
                yield record
                continue
            try:
                row = object_of(record.value, "the row")
                kind, key = table_of(row)
            except Refused as error:
                yield Refusal(record.place, error.field, error.reason)
                continue
            self.add(key, kind, record.place, row)

    def groups(self) -> Iterator[tuple[str, list[Spilled]]]:
        """Rows by key, in the order in which they were added. Of a group beyond LARGEST_GROUP rows the rest is left."""
        self._rows.execute("CREATE INDEX IF NOT EXISTS row_key ON row (key, number)")
        key: str | None = None
        group: list[Spilled] = []
        for found, kind, file, line, value in self._rows.execute(
            "SELECT key, kind, file, line, value FROM row ORDER BY key, number"
        ):
            if found != key:
                if key is not None:
                    yield key, group
                key, group = found, []
            if len(group) <= LARGEST_GROUP:
                group.append(Spilled(kind, Place(file, line), msgspec.json.decode(value), len(value)))
        if key is not None:
            yield key, group

    def first_time(self, *parts: str) -> bool:
        """Whether these texts have not been asked about before."""
        return self._rows.execute("INSERT OR IGNORE INTO seen VALUES (?)", [_digest(parts)]).rowcount == 1

    def add_twin(self, *parts: str) -> None:
        """Something that may come once more in another shape."""
        self._rows.execute(
            "INSERT INTO twin VALUES (?, 1) ON CONFLICT (digest) DO UPDATE SET times = times + 1", [_digest(parts)]
        )

    def take_twin(self, *parts: str) -> bool:
        """Whether this is the other shape of something added; each is taken once."""
        statement = "UPDATE twin SET times = times - 1 WHERE digest = ? AND times > 0"
        return self._rows.execute(statement, [_digest(parts)]).rowcount == 1


def _digest(parts: tuple[str, ...]) -> bytes:
    return hashlib.sha256("\0".join(parts).encode()).digest()[:16]
