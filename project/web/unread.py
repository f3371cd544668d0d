"""Which connections give up the bodies that they have begun, when all of them together hold too much. PURE.

A body waits on disk until it is whole, and nobody has looked at its key by then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

MOST_UNREAD = 1 << 30
"""Bytes of bodies that are not whole, of one worker."""

Key = TypeVar("Key")


class Begun(NamedTuple):
    """Where a body comes from, since when, and what has come of it."""

    address: str
    since: float
    size: int


def choose_to_cut(begun: Mapping[Key, Begun], most: int = MOST_UNREAD) -> list[Key]:
    """Of the address that holds most, the oldest, until the rest is within `most` bytes."""
    left, chosen = dict(begun), []
    held: Counter[str] = Counter()
    for body in left.values():
        held[body.address] += body.size
    while held.total() > most:
        [(address, _)] = held.most_common(1)
        oldest = min((key for key in left if left[key].address == address), key=lambda key: left[key].since)
        held[address] -= left.pop(oldest).size
        chosen.append(oldest)
    return chosen
