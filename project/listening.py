"""How many sockets a server listens on; web and gateway ask."""

import math
from pathlib import Path

LIMIT = Path("/proc/sys/net/core/somaxconn")
"""The file in which Linux says how many connections wait at most for one socket."""
QUEUED = 256
"""Connections that may wait together for a server, if MOST sockets hold as many."""
MOST = 16


def count_listeners(limit: Path = LIMIT) -> int:
    """The number of sockets on one address whose queues hold QUEUED connections together.

    The system bounds each queue. It drops what comes while one is full, and a client tries again after a second. Where
    the bound is not known, one has to do.
    """
    try:
        longest = int(limit.read_text())
    except (OSError, ValueError):
        return 1
    return min(MOST, math.ceil(QUEUED / max(longest, 1)))
