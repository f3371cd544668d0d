"""Counts of tokens where a server did not say them, as of a stream that its client left before the end.

Estimated from the bytes of what was sent and received: by how many bytes a token had in the last answer of the same
model whose counts are known, else by four, which is usual for English text. Kept in the process. What is sent counts
with at least one byte a token: a server may count words of its own. What holds pictures says nothing of the text.

Of an answer that nobody has seen a word of, only the time is known: the server can have written as fast as the model's
fastest whole answer that was not short.
"""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass

from models_registry.backends.endpoint import Endpoint

USUAL, LEAST = 4.0, 1.0
"""Bytes of a token."""
MOST_KEPT = 4096
SHORTEST = 0.001
"""Seconds."""
MEASURABLE = 32
"""Tokens of an answer that shows how fast a model writes: of a shorter one, most of the time may be the prompt's."""

Key = tuple[uuid.UUID | None, str, str]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of text that were sent to a server, and that it answered. `media`: tokens of what else was sent, estimated
    by whoever knows what it is."""

    sent: int
    received: int = 0
    media: int = 0


_BYTES_OF_A_TOKEN: dict[Key, tuple[float, float]] = {}
_TOKENS_A_SECOND: dict[Key, float] = {}


def learn_ratio(endpoint: Endpoint, model: str, sizes: Sizes, tokens_in: int | None, tokens_out: int | None) -> None:
    """Learns from a whole answer, whose counts the server has said where they are not None."""
    key = _key_of(endpoint, model)
    before_in, before_out = _BYTES_OF_A_TOKEN.get(key, (USUAL, USUAL))
    if len(_BYTES_OF_A_TOKEN) >= MOST_KEPT:
        _BYTES_OF_A_TOKEN.clear()
    each_in = before_in if sizes.media else max(_ratio(sizes.sent, tokens_in, before_in), LEAST)
    _BYTES_OF_A_TOKEN[key] = each_in, _ratio(sizes.received, tokens_out, before_out)


def estimate_tokens(endpoint: Endpoint, model: str, sizes: Sizes) -> tuple[int, int]:
    """Tokens in and out, rounded; at least one of what holds anything."""
    each_in, each_out = _BYTES_OF_A_TOKEN.get(_key_of(endpoint, model), (USUAL, USUAL))
    return _count(sizes.sent, each_in) + sizes.media, _count(sizes.received, each_out)


def learn_speed(endpoint: Endpoint, model: str, tokens_out: int | None, seconds: float) -> None:
    """Learns from a whole answer, which came within so many seconds."""
    if tokens_out is not None and tokens_out >= MEASURABLE:
        key = _key_of(endpoint, model)
        if len(_TOKENS_A_SECOND) >= MOST_KEPT:
            _TOKENS_A_SECOND.clear()
        _TOKENS_A_SECOND[key] = max(_TOKENS_A_SECOND.get(key, 0.0), tokens_out / max(seconds, SHORTEST))


def estimate_most_written(endpoint: Endpoint, model: str, seconds: float) -> int | None:
    """Returns the most tokens that the model can have written in so many seconds; None where its speed is not known."""
    speed = _TOKENS_A_SECOND.get(_key_of(endpoint, model))
    return None if speed is None else math.ceil(speed * seconds)


def _ratio(size: int, tokens: int | None, before: float) -> float:
    return size / tokens if tokens and size else before


def _count(size: int, each: float) -> int:
    return max(1, round(size / each)) if size else 0


def _key_of(endpoint: Endpoint, model: str) -> Key:
    return endpoint.backend, endpoint.url, model
