"""Tells when Valkey is away by what redis-py raises."""

from __future__ import annotations

import redis

AWAY = (redis.RedisError, OSError, ValueError)
"""To be caught, and looked at by `is_away`."""
CLOSED = "closed file"
"""What redis-py's ValueError says of a connection that was closed while it was read."""


def is_away(error: Exception) -> bool:
    """Whether the error, one of AWAY, says that the server is away, and not that a call was wrong."""
    return not isinstance(error, ValueError) or CLOSED in str(error)
