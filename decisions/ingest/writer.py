"""Rows into a partitioned table, fast and without doubles.

Optimistic COPY in a savepoint: retries are rare, so the common case pays for no conflict handling. On a unique
violation the same rows go again through `json_to_recordset … ON CONFLICT DO NOTHING`, and the content hashes of what
was there tell a duplicate from a conflict.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg
from django.db import IntegrityError, connection, transaction
from psycopg import sql
from psycopg.types.json import Jsonb, set_json_dumps

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


def write_rows(table: Table, rows: Sequence[Row]) -> Written:
    """Call inside a transaction. Every row has every column; ids are distinct, the workspace is one.

    Raises Erased where some ids are tombstones: let it leave the transaction, so that nothing comes along with them.
    """
    if not rows:
        return Written(frozenset(), frozenset(), frozenset())
    # In one order everywhere: two batches with the same ids would otherwise wait for each other.
    rows = sorted(rows, key=lambda row: row["id"])
    try:
        with transaction.atomic():
            _copy(table, rows)
        return Written(frozenset(row["id"] for row in rows), frozenset(), frozenset())
    except IntegrityError as error:
        if not isinstance(error.__cause__, psycopg.errors.UniqueViolation):
            raise
    return _insert_missing(table, rows)


def _copy(table: Table, rows: Sequence[Row]) -> None:
    names = list(table.columns)
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
        sql.Identifier(table.name), sql.SQL(", ").join(map(sql.Identifier, names))
    )
    json_columns = {name for name, kind in table.columns.items() if kind == "jsonb"}
    with connection.cursor() as cursor, connection.wrap_database_errors, cursor.cursor.copy(statement) as copy:
        copy.set_types(list(table.columns.values()))
        for row in rows:
            copy.write_row(
                [Jsonb(row[name]) if name in json_columns and row[name] is not None else row[name] for name in names]
            )


def _insert_missing(table: Table, rows: Sequence[Row]) -> Written:
    columns = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    typed = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL("text" if kind == "bytea" else kind))
        for name, kind in table.columns.items()
    )
    picked = sql.SQL(", ").join(
        sql.SQL("decode({}, 'hex')").format(sql.Identifier(name)) if kind == "bytea" else sql.Identifier(name)
        for name, kind in table.columns.items()
    )
    insert = sql.SQL(
        "INSERT INTO {table} ({columns}) SELECT {picked} FROM json_to_recordset(%s::json) AS x({typed})"
        " ON CONFLICT DO NOTHING RETURNING id"
    ).format(table=sql.Identifier(table.name), columns=columns, picked=picked, typed=typed)
    with connection.cursor() as cursor:
        cursor.execute(insert, [_payload(table, rows)])
        stored = frozenset(row[0] for row in cursor.fetchall())
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
