"""The office's database: SQLite in memory, kept as the bytes of its file, so that a snapshot is a value.

A question opens the bytes, asks, and closes again. Statements may read and change rows, and nothing else: neither
files nor other databases are in their reach.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from training.engine.environments.office.tables import Cell, Table, ToolError, table

MOST_ROWS = 200
MOST_STEPS = 200_000
"""Instructions of SQLite's machine that a statement may take: a fraction of a second."""
MOST_BYTES = 1_000_000
"""Of the whole database."""
LONGEST_ROW = 100_000
"""Bytes of a row, and of a value."""

ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_UPDATE,
    sqlite3.SQLITE_DELETE,
    sqlite3.SQLITE_TRANSACTION,  # sqlite3 begins one before a change
}


def make_database(tables: Mapping[str, Table]) -> bytes:
    """Empty for no tables: SQLite writes no file for an empty database."""
    if not tables:
        return b""
    with closing(sqlite3.connect(":memory:")) as connection:
        for name, one in tables.items():
            connection.execute(f"CREATE TABLE {quoted(name)} ({', '.join(map(quoted, one.columns))})")
            _insert(connection, name, one.rows, len(one.columns))
        connection.commit()
        return connection.serialize()


def query(database: bytes, statement: str, locked: Collection[str] = ()) -> tuple[Table, bytes]:
    """What one statement finds, at most MOST_ROWS rows, and the database after it. Raises ToolError, also for a
    statement that needs a locked table."""
    with _opened(database, locked) as connection:
        cursor = connection.execute(statement)
        rows = cursor.fetchmany(MOST_ROWS)
        columns = [name for name, *_ in cursor.description or [("changed rows",)]]
        if cursor.description is None:
            rows = [(max(cursor.rowcount, 0),)]
        connection.commit()
        return table(columns, rows), connection.serialize() if connection.total_changes else database


def read_table(database: bytes, name: str) -> Table:
    """Raises ToolError where there is no such table."""
    return query(database, f"SELECT * FROM {quoted(name)}")[0]  # noqa: S608 - quoted


def add_rows(database: bytes, name: str, rows: Sequence[Sequence[Cell]]) -> bytes:
    """Raises ToolError where the rows do not have as many cells as the table has columns."""
    width = len(read_table(database, name).columns)
    if any(len(row) != width for row in rows):
        raise ToolError(f"{width} columns are needed")
    with _opened(database) as connection:
        _insert(connection, name, rows, width)
        connection.commit()
        return connection.serialize()


def tables_of(database: bytes) -> Iterator[str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(database)
        yield from (name for (name,) in connection.execute("SELECT name FROM sqlite_master ORDER BY name"))


def quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


@contextmanager
def _opened(database: bytes, locked: Collection[str] = ()) -> Iterator[sqlite3.Connection]:
    def may(what: int, name: str | None, *_: str | None) -> int:
        return sqlite3.SQLITE_OK if what in ALLOWED and name not in locked else sqlite3.SQLITE_DENY

    with closing(sqlite3.connect(":memory:")) as connection:
        if database:
            connection.deserialize(database)
        connection.execute(f"PRAGMA max_page_count = {MOST_BYTES // 4096}")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_ROW)
        connection.set_authorizer(may)
        connection.set_progress_handler(lambda: 1, MOST_STEPS)  # asked once so many are done, and stops it
        try:
            yield connection
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise ToolError(f"SQL: {error}") from error


def _insert(connection: sqlite3.Connection, name: str, rows: Iterable[Sequence[Cell]], width: int) -> None:
    connection.executemany(f"INSERT INTO {quoted(name)} VALUES ({', '.join('?' * width)})", rows)  # noqa: S608 - quoted
