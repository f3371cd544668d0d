"""The origin of a URL, by which servers are told apart."""

from __future__ import annotations

from urllib.parse import urlsplit

PORTS = {"http": 80, "https": 443}


def origin_of(url: str) -> tuple[str, str, int]:
    """Scheme, host in lower case, and port. Raises ValueError for a port that is none."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or PORTS.get(parts.scheme, 0)
