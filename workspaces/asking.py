"""Statements that every request of a program asks, prepared in its session: PostgreSQL plans them once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from django.db import connection


def ask(statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The rows of one statement, its values bound by the server. Raises what a cursor of Django's raises.

    Django binds values into the text, which is then parsed and planned every time; for the few statements of a recorded
    decision that was half of what PostgreSQL did. Where queries are counted or logged, Django's own cursor is taken.
    """
    if connection.queries_logged:
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall())
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    connection.validate_no_broken_transaction()
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as prepared:
        prepared.execute(statement, values, prepare=True)
        return prepared.fetchall()
