"""uuid7 ids made here, so that sending something twice is harmless."""

from __future__ import annotations

import os
import time
import uuid

__all__ = ["uuid7"]

_RANDOM_BITS = (1 << 62) - 1


def uuid7() -> uuid.UUID:
    """A fresh id: milliseconds since 1970, 12 bits of the millisecond's fraction, 62 random bits (RFC 9562, 6.2).

    Random bits come from the operating system: a generator of the process would repeat itself after a fork.
    """
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    fraction = (rest << 12) // 1_000_000
    drawn = int.from_bytes(os.urandom(8), "big") & _RANDOM_BITS
    return uuid.UUID(int=milliseconds << 80 | 7 << 76 | fraction << 64 | 2 << 62 | drawn)
