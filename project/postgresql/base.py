"""Django's backend for PostgreSQL, whose serving processes do not wait for a database that is away."""

from __future__ import annotations

from typing import Any

import psycopg
from django.db.backends.postgresql import base

from project.postgresql.watch import CONNECT_SECONDS, open_watched, watch


class DatabaseWrapper(base.DatabaseWrapper):
    def get_new_connection(self, conn_params: dict[str, Any]) -> psycopg.Connection[Any]:
        def open_connection() -> psycopg.Connection[Any]:
            opened: psycopg.Connection[Any] = super(DatabaseWrapper, self).get_new_connection(conn_params)
            return opened

        return open_watched(open_connection) if watch.is_on else open_connection()

    def get_connection_params(self) -> dict[str, Any]:
        parameters: dict[str, Any] = super().get_connection_params()
        return {"connect_timeout": CONNECT_SECONDS, **parameters} if watch.is_on else parameters
