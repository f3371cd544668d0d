"""Checks at a request's start whether the server has closed its database connection, without a query.

Django would send `SELECT 1` before the first statement (CONN_HEALTH_CHECKS), and recording a decision takes only three.
A server that ends a session sends a message or closes the connection, and an idle connection receives nothing else. So
the check is whether its socket has something to read.
"""

from __future__ import annotations

import select
from typing import Any

from django.core.signals import request_started
from django.db import connections


def check_connections(**_: Any) -> None:
    """Closes those that the server has ended, so that the request opens new ones; the others need no query."""
    for connection in connections.all(initialized_only=True):
        if connection.connection is None or connection.in_atomic_block:
            continue
        if connection.connection.closed or _has_something_to_read(connection.connection.fileno()):
            connection.close()
        else:
            connection.health_check_done = True  # type: ignore[attr-defined]


def _has_something_to_read(descriptor: int) -> bool:
    sockets = select.poll()
    sockets.register(descriptor, select.POLLIN)
    return bool(sockets.poll(0))


# After Django's own receiver, which marks every connection as unchecked.
request_started.connect(check_connections, dispatch_uid="project.database")
