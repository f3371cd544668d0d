"""Tells when Valkey is away by what redis-py raises."""

from __future__ import annotations

import redis

AWAY = (redis.RedisError, OSError, ValueError, AttributeError)
"""To be caught, and looked at by `is_away`."""
CLOSED = "closed file"
"""What redis-py's ValueError says of a connection that was closed while it was read."""
PARTS_OF_A_CONNECTION = frozenset(
    {"can_read", "close", "purge", "read", "readline", "recv", "recv_into", "send", "sendall", "settimeout", "shutdown"}
)
"""What redis-py calls of a buffer or socket that is None once its connection is closed."""


def is_away(error: Exception) -> bool:
    """Whether the error, one of AWAY, says that the server is away, and not that a call was wrong."""
    if isinstance(error, AttributeError):  # redis-py reads the buffer of a connection that was closed meanwhile
        return error.obj is None and error.name in PARTS_OF_A_CONNECTION
    return not isinstance(error, ValueError) or CLOSED in str(error)
