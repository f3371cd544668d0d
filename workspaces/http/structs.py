"""What msgspec knows of the types of bodies, made before threads need it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec


def prepare_structs() -> int:
    """Makes every loaded Struct ready to be decoded, and returns how many. msgspec does so at a type's first use, and
    two threads that are the first at once end the process by a segmentation fault (seen with msgspec 0.22)."""
    kinds = list(dict.fromkeys(_below(msgspec.Struct)))
    for kind in kinds:
        with suppress(TypeError):  # of a type that cannot be decoded, and so never is
            msgspec.json.Decoder(kind)
    return len(kinds)


def _below(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)
