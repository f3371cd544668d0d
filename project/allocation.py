"""How the C library allocates in processes that take large bodies."""

from __future__ import annotations

import ctypes

M_MMAP_THRESHOLD = -3
LARGE = 1 << 20


def give_back_large_blocks() -> None:
    """Lets glibc map each block of a megabyte or more by itself, so that the system has it again as soon as it is free.
    By default it keeps blocks of up to 32 MiB, once such a block was freed, for each thread; processes that are forked
    do as this one. Other C libraries have no such option."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE)
