"""Rows into a partitioned table, fast and without doubles.

Optimistic COPY in a savepoint: retries are rare, so the common case pays for no conflict handling. On a unique
violation the same rows go again through `json_to_recordset … ON CONFLICT DO NOTHING`, and the content hashes of what
was there tell a duplicate from a conflict. A few rows go that way from the start: the other is four statements.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg
from django.db import IntegrityError, connection, transaction
from psycopg import sql
from psycopg.types.json import set_json_dumps

from decisions.errors import Erased
from decisions.tombstones import ERASED_HASH

set_json_dumps(msgspec.json.encode)


@dataclass(frozen=True, slots=True)
class Table:
    """`columns` maps a column to its PostgreSQL type. `id` and `content_hash` are among them."""

    name: str
    columns: dict[str, str]


@dataclass(frozen=True, slots=True)
class Written:
    """Ids by what became of them."""

    stored: frozenset[uuid.UUID]
    duplicates: frozenset[uuid.UUID]
    conflicts: frozenset[uuid.UUID]


Row = dict[str, Any]
# Up to so many rows the one statement is cheaper, whatever it costs PostgreSQL to take JSON apart.
FEW = 4
NULL = b"\\N"


def write_rows(table: Table, rows: Sequence[Row]) -> Written:
    """Call inside a transaction. Every row has every column; ids are distinct, the workspace is one.

    Raises Erased where some ids are tombstones: let it leave the transaction, so that nothing comes along with them.
    """
    if not rows:
        return Written(frozenset(), frozenset(), frozenset())
    # In one order everywhere: two batches with the same ids would otherwise wait for each other.
    rows = sorted(rows, key=lambda row: row["id"])
    if len(rows) <= FEW:
        return _insert_missing(table, rows)
    try:
        with transaction.atomic():
            _copy(table, rows)
        return Written(frozenset(row["id"] for row in rows), frozenset(), frozenset())
    except IntegrityError as error:
        if not isinstance(error.__cause__, psycopg.errors.UniqueViolation):
            raise
    return _insert_missing(table, rows)


def _copy(table: Table, rows: Sequence[Row]) -> None:
    """As text, made column by column: the driver's row by row costs three times as much."""
    made = {name: _column(kind, [row[name] for row in rows]) for name, kind in table.columns.items()}
    columns = {name: cells for name, cells in made.items() if cells is not None}
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table.name), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    lines = b"\n".join(map(b"\t".join, zip(*columns.values(), strict=True)))
    with connection.cursor() as cursor, connection.wrap_database_errors, cursor.cursor.copy(statement) as copy:
        copy.write(lines)


def _column(kind: str, values: list[Any]) -> list[bytes] | None:
    """Its cells in COPY's text format; None when all are null, and the column is left out."""
    encode = CELLS.get(kind, _plain_cell)
    first = values[0]
    if all(value is first for value in values):  # the workspace, the agent, the moment, an agent's options
        return None if first is None else [encode(first)] * len(values)
    return [NULL if value is None else encode(value) for value in values]


def _plain_cell(value: Any) -> bytes:
    return str(value).encode()


def _text_cell(value: str) -> bytes:
    if "\\" in value or not value.isprintable():
        value = value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return value.encode()


def _json_cell(value: Any) -> bytes:
    # JSON holds no raw tab or newline; only its backslashes mean something to COPY.
    return msgspec.json.encode(value).replace(b"\\", b"\\\\")


CELLS: dict[str, Callable[[Any], bytes]] = {
    "text": _text_cell,
    "jsonb": _json_cell,
    "uuid": lambda value: value.hex.encode(),
    "bytea": lambda value: b"\\\\x" + value.hex().encode(),
    "float8": lambda value: repr(value).encode(),
    "timestamptz": lambda value: value.isoformat().encode(),
}


@functools.cache
def _insert_statement(name: str, columns: tuple[tuple[str, str], ...]) -> str:
    """Composed once a table: that costs as much as the rest of recording one decision."""
    given = ", ".join(f'"{column}"' for column, _ in columns)
    typed = ", ".join(f'"{column}" {"text" if kind == "bytea" else kind}' for column, kind in columns)
    picked = ", ".join(f"decode(\"{column}\", 'hex')" if kind == "bytea" else f'"{column}"' for column, kind in columns)
    return (  # names come from our own tables
        f'INSERT INTO "{name}" ({given}) SELECT {picked} FROM json_to_recordset(%s::json) AS x({typed})'  # noqa: S608
        " ON CONFLICT DO NOTHING RETURNING id"
    )


def _insert_missing(table: Table, rows: Sequence[Row]) -> Written:
    insert = _insert_statement(table.name, tuple(table.columns.items()))
    with connection.cursor() as cursor:
        cursor.execute(insert, [_payload(table, rows)])
        stored = frozenset(row[0] for row in cursor.fetchall())
        if len(stored) == len(rows):
            return Written(stored, frozenset(), frozenset())
        rest = {row["id"]: bytes(row["content_hash"]) for row in rows if row["id"] not in stored}
        cursor.execute(
            sql.SQL("SELECT id, content_hash FROM {} WHERE id = ANY(%s) AND workspace_id = %s").format(
                sql.Identifier(table.name)
            ),
            [list(rest), rows[0]["workspace_id"]],
        )
        there = {found: bytes(digest) for found, digest in cursor.fetchall()}
    if erased := [found for found, digest in there.items() if digest == ERASED_HASH]:
        raise Erased.of(erased)
    duplicates = frozenset(found for found, digest in rest.items() if there.get(found) == digest)
    return Written(stored, duplicates, frozenset(rest) - duplicates)


def _payload(table: Table, rows: Sequence[Row]) -> str:
    binary = [name for name, kind in table.columns.items() if kind == "bytea"]
    plain = [{**row, **{name: bytes(row[name]).hex() for name in binary if row[name] is not None}} for row in rows]
    return msgspec.json.encode(plain).decode()
