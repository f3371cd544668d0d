"""Is a kept connection still there? Django asks `SELECT 1` at the start of every request that has one."""

from __future__ import annotations

import select

import psycopg
from django.db.backends.postgresql import base

# Closed or lost, or in a transaction that has failed: `SELECT 1` would fail as well.
BROKEN = (psycopg.pq.TransactionStatus.UNKNOWN, psycopg.pq.TransactionStatus.INERROR)


class DatabaseWrapper(base.DatabaseWrapper):
    """Looks at the socket: a server that has ended, or ended the session, has closed it or said so, and then something
    can be read where an idle session has nothing to say. That costs no round trip. A host that vanished without a word
    is found out by the next statement, as it would be by `SELECT 1`.
    """

    def is_usable(self) -> bool:
        if self.connection is None or self.connection.pgconn.transaction_status in BROKEN:
            return False
        try:
            waiting = select.poll()  # and not select.select, which knows no descriptor above 1023
            waiting.register(self.connection.pgconn.socket, select.POLLIN | select.POLLHUP | select.POLLERR)
        except psycopg.Error:
            return False
        return not waiting.poll(0)
