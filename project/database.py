"""A request's database session: whether the server has ended it is seen at its socket, without asking.

Django asks `SELECT 1` before a request's first statement (CONN_HEALTH_CHECKS). Recording a decision takes three
statements, so a fourth is a good part of it. A server that ends a session says so, or closes it; an idle session has
nothing else to read.
"""

from __future__ import annotations

import select
from typing import Any

from django.core.signals import request_started
from django.db import connections


def look_at_sessions(**_: Any) -> None:
    """Closes what the server has ended, for the request to open anew, and spares the others Django's question."""
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


# After Django's own receiver, which begins every request with the question to be asked.
request_started.connect(look_at_sessions, dispatch_uid="project.database")
