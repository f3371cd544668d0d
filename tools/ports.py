"""Ports that nobody listens at, for servers of tests and benchmarks."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Free now. Another process may take it before a server does."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
