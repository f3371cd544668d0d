"""A span as the mapping reads it, from any encoding. PURE."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LATEST_NS = int((dt.datetime(2200, 1, 1, tzinfo=dt.UTC) - EPOCH).total_seconds()) * 10**9
HEX = frozenset("0123456789abcdef")


def moment(nanoseconds: int) -> dt.datetime:
    """Nanoseconds since 1970 as a moment, to the microsecond below."""
    return EPOCH + dt.timedelta(microseconds=nanoseconds // 1000)


@dataclass(frozen=True, slots=True)
class SpanEvent:
    name: str
    at_ns: int
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """`trace_id` has 32 lower-case hex digits, `span_id` 16; `parent_id` is empty at the root. Times are nanoseconds
    since 1970. `resource` holds the attributes of the program that sent it."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    events: tuple[SpanEvent, ...] = ()
    failed: bool = False
    message: str = ""
    resource: Mapping[str, Any] = field(default_factory=dict)

    @property
    def started_at(self) -> dt.datetime:
        return moment(self.start_ns)

    @property
    def ended_at(self) -> dt.datetime:
        return moment(self.end_ns)

    @property
    def duration_ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6


def fault_of_span(span: Span) -> str:
    """Why this span cannot be kept; empty when it can."""
    for what, given, length in (("trace id", span.trace_id, 32), ("span id", span.span_id, 16)):
        if len(given) != length or not set(given) <= HEX or set(given) == {"0"}:
            return f"its {what} {given!r} must be {length} hex digits, not all zero"
    if span.parent_id and (len(span.parent_id) != 16 or not set(span.parent_id) <= HEX):
        return f"its parent's id {span.parent_id!r} is not 16 hex digits"
    if not 0 < span.start_ns <= span.end_ns < LATEST_NS:
        return "it must start after 1970 and end after its start"
    return ""
