"""Counts of tokens where a server did not say them, as of a stream that its client left before the end.

Estimated from the bytes of what was sent and received: by how many bytes a token had in the last answer of the same
model whose counts are known, else by four, which is usual for English text. Kept in the process. What is sent counts
with at least one byte a token: a server may count pictures, too, and words of its own.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from models_registry.backends.endpoint import Endpoint

USUAL, LEAST = 4.0, 1.0
"""Bytes of a token."""
MOST_KEPT = 4096

Key = tuple[uuid.UUID | None, str, str]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of text that were sent to a server, and that it answered."""

    sent: int
    received: int


_BYTES_OF_A_TOKEN: dict[Key, tuple[float, float]] = {}


def learn_ratio(endpoint: Endpoint, model: str, sizes: Sizes, tokens_in: int | None, tokens_out: int | None) -> None:
    """Learns from a whole answer, whose counts the server has said where they are not None."""
    key = _key_of(endpoint, model)
    before_in, before_out = _BYTES_OF_A_TOKEN.get(key, (USUAL, USUAL))
    if len(_BYTES_OF_A_TOKEN) >= MOST_KEPT:
        _BYTES_OF_A_TOKEN.clear()
    each_in = max(_ratio(sizes.sent, tokens_in, before_in), LEAST)
    _BYTES_OF_A_TOKEN[key] = each_in, _ratio(sizes.received, tokens_out, before_out)


def estimate_tokens(endpoint: Endpoint, model: str, sizes: Sizes) -> tuple[int, int]:
    """Tokens in and out, rounded; at least one of what holds anything."""
    each_in, each_out = _BYTES_OF_A_TOKEN.get(_key_of(endpoint, model), (USUAL, USUAL))
    return _count(sizes.sent, each_in), _count(sizes.received, each_out)


def _ratio(size: int, tokens: int | None, before: float) -> float:
    return size / tokens if tokens and size else before


def _count(size: int, each: float) -> int:
    return max(1, round(size / each)) if size else 0


def _key_of(endpoint: Endpoint, model: str) -> Key:
    return endpoint.backend, endpoint.url, model
