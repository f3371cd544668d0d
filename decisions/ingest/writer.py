"""Writes rows into a partitioned table, fast and without duplicates.

COPY comes first, since retries are rare. On a unique violation the same rows go again through `json_to_recordset … ON
CONFLICT DO NOTHING`, and the stored content hashes tell a duplicate from a conflict. A few rows go that way from the
start.

Rows are passed column by column, because Python's work for each row is the main cost of a batch (docs/results.md,
"Recording").
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
from decisions.models.tombstones import ERASED_HASH
from workspaces.storage.prepared import prepared_cursor

set_json_dumps(msgspec.json.encode)


@dataclass(frozen=True, slots=True)
class Table:
    """`columns` maps a column to its PostgreSQL type. `id` and `content_hash` are among them.

    `unique`: columns that a second unique index holds; a row whose last of them is null is not in it.
    """

    name: str
    columns: dict[str, str]
    unique: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """Ids that were there before, with the same content, with another, or in another workspace. Every other row was
    stored."""

    duplicates: frozenset[uuid.UUID] = frozenset()
    conflicts: frozenset[uuid.UUID] = frozenset()
    foreign: frozenset[uuid.UUID] = frozenset()


Row = dict[str, Any]
Columns = dict[str, Sequence[Any]]
"""The values of a column for every row, in one order. What is no column of the table is left out when it is written."""
# Up to so many rows the one statement is cheaper, whatever it costs PostgreSQL to take JSON apart.
FEW = 4
NULL = b"\\N"
_lines = msgspec.json.Encoder().encode_lines


def columns_of(rows: Sequence[Row]) -> Columns:
    """Rows with the same names, turned."""
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def keep_places(columns: Columns, places: Sequence[int]) -> Columns:
    """The rows at these places, in this order."""
    return {name: [values[place] for place in places] for name, values in columns.items()}


def write_within(table: Table, columns: Columns) -> Written:
    """As `write_columns`, for a transaction that holds more than these rows: a repeat takes a savepoint back."""
    if not is_few(columns):
        try:
            with transaction.atomic():
                return write_columns(table, columns)
        except IntegrityError as error:
            if not is_repeat(error):
                raise
    return write_columns(table, columns, repeated=True)


def write_columns(table: Table, columns: Columns, *, repeated: bool = False) -> Written:
    """Call inside a transaction. Every column is there; ids are distinct, the workspace is one.

    Raises IntegrityError where ids were there before (`is_repeat`): take the transaction or savepoint back and call it
    with `repeated`. Raises Erased where some ids are tombstones: let it leave the transaction, so that nothing comes
    along with them.
    """
    ids = columns.get("id", [])
    if not ids:
        return Written()
    # In one order everywhere: two batches with the same ids or keys would otherwise wait for each other.
    order = _order(table, columns)
    if order != sorted(order):
        columns = keep_places(columns, sorted(range(len(order)), key=order.__getitem__))
    if repeated or is_few(columns):
        return _insert_missing(table, columns)
    _copy(table, columns)
    return Written()


def _order(table: Table, columns: Columns) -> list[Any]:
    """By what two batches may both have: rows in the second unique index by its columns, all others by their ids."""
    ids = [row_id.int for row_id in columns["id"]]
    if not table.unique or columns[table.unique[-1]].count(None) == len(ids):
        return ids
    unique = zip(*(columns[name] for name in table.unique), strict=True)
    return [(() if row[-1] is None else tuple(map(str, row)), row_id) for row, row_id in zip(unique, ids, strict=True)]


def is_few(columns: Columns) -> bool:
    """Whether the rows are so few that they never go by COPY, and a repeat among them raises nothing."""
    return len(columns.get("id", [])) <= FEW


def is_repeat(error: IntegrityError) -> bool:
    return isinstance(error.__cause__, psycopg.errors.UniqueViolation)


def _copy(table: Table, columns: Columns) -> None:
    """In COPY's text format, made a column at a time: the driver's way row by row costs many times as much."""
    cells = {name: made for name, kind in table.columns.items() if (made := _cells(kind, columns[name])) is not None}
    same = {name: made for name, made in cells.items() if isinstance(made, bytes)}
    other = {name: made for name, made in cells.items() if isinstance(made, list)}
    begin = b"".join(cell + b"\t" for cell in same.values())
    lines = begin + (b"\n" + begin).join(map(b"\t".join, zip(*other.values(), strict=True)))
    statement = _copy_statement(table.name, (*same, *other))
    with connection.cursor() as cursor, connection.wrap_database_errors, cursor.cursor.copy(statement) as copy:
        copy.write(lines)


@functools.lru_cache(maxsize=256)
def _copy_statement(name: str, columns: tuple[str, ...]) -> str:
    named = ", ".join(f'"{column}"' for column in columns)
    return f'COPY "{name}" ({named}) FROM STDIN'


def _cells(kind: str, values: Sequence[Any]) -> list[bytes] | bytes | None:
    """In COPY's text format; one cell when it is the same in every row, None when all are null and the column is left
    out."""
    first, encode = values[0], _CELLS.get(kind, _unquoted_cells)
    if first is None and values.count(None) == len(values):
        return None
    # The workspace, the agent, the moment, an agent's options: the same object in every row is written once.
    if first is values[-1] and _is_same(kind, first, values):
        return encode([first])[0]
    told = [value for value in values if value is not None]
    cells = encode(told)
    if len(told) == len(values):
        return cells
    rest = iter(cells)
    return [NULL if value is None else next(rest) for value in values]


def _is_same(kind: str, first: Any, values: Sequence[Any]) -> bool:
    # In JSON 1 and true are equal and not the same. Elsewhere a column has one type, and counting is quicker.
    return len(set(map(id, values))) == 1 if kind == "jsonb" else values.count(first) == len(values)


def _text_cells(values: list[str]) -> list[bytes]:
    joined = "\n".join(values)
    if "\\" in joined or "\t" in joined or "\r" in joined or joined.count("\n") >= len(values):
        joined = "\n".join(map(_escaped, values))
    return joined.encode().split(b"\n")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _json_cells(values: list[Any]) -> list[bytes]:
    # JSON holds no raw tab or newline; only its backslashes mean something to COPY.
    return _lines(values).replace(b"\\", b"\\\\").split(b"\n")[:-1]


def _unquoted_cells(values: list[Any]) -> list[bytes]:
    """Numbers, truth values, ids, moments, decimals: JSON writes them as PostgreSQL reads them, but for quotes."""
    return _lines(values).replace(b'"', b"").split(b"\n")[:-1]


def _binary_cells(values: list[bytes]) -> list[bytes]:
    return [b"\\\\x" + value.hex().encode() for value in values]


_CELLS: dict[str, Callable[[list[Any]], list[bytes]]] = {
    "text": _text_cells,
    "jsonb": _json_cells,
    "bytea": _binary_cells,
}


def insert_of(table: Table, columns: Columns) -> tuple[str, str]:
    """The statement that inserts the rows, and its parameter `rows`. A column of nulls costs PostgreSQL as much as any
    other, so it is left out."""
    count = len(columns["id"])
    kinds = tuple((name, kind) for name, kind in table.columns.items() if columns[name].count(None) < count)
    return _insert_statement(table.name, kinds), _payload(kinds, columns)


@functools.lru_cache(maxsize=256)
def _insert_statement(name: str, columns: tuple[tuple[str, str], ...]) -> str:
    """Composed once for the columns that are given: that costs as much as the rest of recording one decision."""
    given = ", ".join(f'"{column}"' for column, _ in columns)
    typed = ", ".join(f'"{column}" {"text" if kind == "bytea" else kind}' for column, kind in columns)
    picked = ", ".join(f"decode(\"{column}\", 'hex')" if kind == "bytea" else f'"{column}"' for column, kind in columns)
    # names come from our own tables
    return f'INSERT INTO "{name}" ({given}) SELECT {picked} FROM json_to_recordset(%(rows)s::json) AS x({typed})'  # noqa: S608


def _insert_missing(table: Table, columns: Columns) -> Written:
    ids = columns["id"]
    statement, rows = insert_of(table, columns)
    with prepared_cursor() as cursor:
        cursor.execute(f"{statement} ON CONFLICT DO NOTHING RETURNING id", {"rows": rows})
        stored = {row[0] for row in cursor.fetchall()}
    if len(stored) == len(ids):
        return Written()
    hashes = zip(ids, columns["content_hash"], strict=True)
    rest = {row_id: bytes(digest) for row_id, digest in hashes if row_id not in stored}
    with connection.cursor() as cursor:
        cursor.execute(
            sql.SQL("SELECT id, workspace_id = %s, content_hash FROM {} WHERE id = ANY(%s)").format(
                sql.Identifier(table.name)
            ),
            [columns["workspace_id"][0], list(rest)],
        )
        found_rows = cursor.fetchall()
    there = {found: bytes(digest) for found, own, digest in found_rows if own}
    foreign = frozenset(found for found, own, _ in found_rows if not own) - there.keys()
    if erased := [found for found, digest in there.items() if digest == ERASED_HASH]:
        raise Erased.of(erased)
    duplicates = frozenset(found for found, digest in rest.items() if there.get(found) == digest)
    return Written(duplicates, frozenset(rest) - duplicates - foreign, foreign)


def _payload(kinds: Sequence[tuple[str, str]], columns: Columns) -> str:
    plain = [
        [None if value is None else bytes(value).hex() for value in columns[name]] if kind == "bytea" else columns[name]
        for name, kind in kinds
    ]
    names = [name for name, _ in kinds]
    return msgspec.json.encode([dict(zip(names, row, strict=True)) for row in zip(*plain, strict=True)]).decode()
