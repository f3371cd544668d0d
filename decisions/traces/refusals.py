"""Why a span is not kept, and what every encoding refuses alike. PURE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from decisions.traces.messages import MAX_DEPTH
from workspaces.errors import TooLarge
from workspaces.storage.storable import is_storable


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a span was not kept; `span_id` as far as it could be read."""

    span_id: str
    reason: str


class Unstorable(ValueError):
    """A value that text or JSON in the database cannot hold."""


def kept(value: Any) -> Any:
    """The value. Raises Unstorable."""
    if not is_storable(value, MAX_DEPTH):
        raise Unstorable("it holds a NUL, a lone surrogate, an integer beyond 64 bits, or nesting that is too deep")
    return value


def check_count(count: int, most: int) -> None:
    """Raises TooLarge."""
    if count > most:
        raise TooLarge(f"The request has {count} spans; at most {most} are allowed.")
