"""Ends a serving process's wait for a database that has stopped to answer, as one that is frozen or cut off.

A statement may take long, and only the database knows whether it still works on it. So nothing is limited by itself:
while a statement waits for longer than PATIENCE_SECONDS, another connection asks whether the database answers at all.
Where it does not within CONNECT_SECONDS, every statement that waits in this process fails, and further ones do at once,
until the database answers again. Jobs, commands and migrations wait as they always did.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import psycopg
import structlog
from django.db import OperationalError, connections
from psycopg.abc import PQGen

T = TypeVar("T")

PATIENCE_SECONDS = 1.0
CONNECT_SECONDS = 2
"""For a new connection, a probe's too. With the patience before it, below five seconds."""
PAUSE_SECONDS = 1.0
"""Between two probes."""
CONNECTING = frozenset(
    {"dbname", "user", "password", "host", "port", "connect_timeout", "options", "service", "passfile"}
    | {"sslmode", "sslrootcert", "sslcert", "sslkey"}
)
"""Parameters that open a connection; Django adds some of its own for what it does with one."""
GONE = "the database does not answer"

log = structlog.get_logger(__name__)


class Watch:
    """Whether the database answers, in this process, once it `is_on`. `is_away` is what was seen last."""

    def __init__(self) -> None:
        self.is_on = self.is_away = False
        self._probing = threading.Lock()
        self._next_probe = 0.0

    def look(self) -> None:
        """Starts a probe, unless one runs or has ended just now."""
        if time.monotonic() < self._next_probe or not self._probing.acquire(blocking=False):
            return
        try:
            threading.Thread(target=self._probe, name="database-probe", daemon=True).start()
        except RuntimeError:  # no more threads; the next statement that waits tries again
            self._probing.release()

    def _probe(self) -> None:
        try:
            self._say(away=not _answers())
        finally:
            self._next_probe = time.monotonic() + PAUSE_SECONDS
            self._probing.release()

    def refuse_while_away(self) -> None:
        """Raises OperationalError without a wait."""
        if self.is_away:
            self.look()
            raise OperationalError(GONE)

    def note_timeout(self) -> None:
        """A connection was not opened in time."""
        self._say(away=True)
        self.look()

    def _say(self, *, away: bool) -> None:
        if away != self.is_away:
            log.error("database_away" if away else "database_back")
        self.is_away = away


def _answers() -> bool:
    """Whether a new connection gets an answer; a refusal is one, too."""
    parameters = connections["default"].get_connection_params()
    try:
        psycopg.connect(**{name: value for name, value in parameters.items() if name in CONNECTING}).close()
    except psycopg.errors.ConnectionTimeout:
        return False
    except psycopg.Error:
        return True
    return True


watch = Watch()


def watch_database() -> None:
    """From now on, for all connections of this process and of those that it forks. Call it before the first is
    opened."""
    watch.is_on = True


def open_watched(open_connection: Callable[[], psycopg.Connection[Any]]) -> psycopg.Connection[Any]:
    """Opens a connection whose waits end when the database is away. Raises OperationalError."""
    watch.refuse_while_away()
    try:
        opened = open_connection()
    except psycopg.errors.ConnectionTimeout:
        watch.note_timeout()
        raise
    opened.wait = partial(_wait, opened)  # type: ignore[method-assign]
    return opened


def _wait(opened: psycopg.Connection[Any], work: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
    """psycopg.Connection.wait. Raises psycopg.OperationalError, and closes the connection, where the database is
    away."""
    return psycopg.Connection.wait(opened, _limited(opened, work), interval, timeout)


def _limited(opened: psycopg.Connection[Any], work: PQGen[T]) -> PQGen[T]:
    """The same work. psycopg goes on with it when the connection can be read or written, and every 0.1 s."""
    began = time.monotonic()
    try:
        waits_for = next(work)
        while True:
            ready = yield waits_for
            if not ready and (watch.is_away or time.monotonic() - began > PATIENCE_SECONDS):
                watch.look()
                if watch.is_away:
                    opened.pgconn.finish()
                    raise psycopg.OperationalError(GONE)
            waits_for = work.send(ready)
    except StopIteration as end:
        return cast(T, end.value)
