"""Job kinds: the upper floors register handlers here, so that this floor need not know them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobs.context import JobContext

Handler = Callable[["JobContext"], dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class Kind:
    """`on_end` is told, inside the ending transaction, that a job of this kind ended without success."""

    name: str
    handler: Handler
    queue: str
    on_end: Callable[[Any], None] | None


KINDS: dict[str, Kind] = {}


def job_kind(
    name: str, *, queue: str = "default", on_end: Callable[[Any], None] | None = None
) -> Callable[[Handler], Handler]:
    """Decorator. The handler takes a JobContext and returns the job's result (a JSON object or None)."""

    def register(handler: Handler) -> Handler:
        if name in KINDS:
            raise ValueError(f"job kind {name} is registered twice")
        KINDS[name] = Kind(name, handler, queue, on_end)
        return handler

    return register
