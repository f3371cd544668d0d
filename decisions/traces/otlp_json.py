"""OTLP's JSON, which is not protobuf's own mapping: ids are hex here, and enumerations are numbers. Called by
`decisions.traces.otlp`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from decisions.ingest.decoding import fault_of
from decisions.traces.refusals import Refusal, Unstorable, check_count, kept
from decisions.traces.spans import Span, SpanEvent
from decisions.traces.wire import MAX_MESSAGES
from workspaces.errors import InvalidInput
from workspaces.http.parsing import MAX_BATCH, check_body

HALF = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)
"""The escape of a high surrogate without a low one after it, or of a low one without a high one before."""
MOST_HALVES = 100_000
"""A body with more of them is refused as a whole: each costs memory."""
BACKSLASH = b"\x01\x01"
"""Instead of an escaped backslash while escapes are looked for; JSON holds no such bytes."""
SPAN_ID = re.compile(rb'"spanId" ?: ?"([0-9a-fA-F]{16})"')
Whole = int | str
"""64-bit integers may come as text."""


class JsonValues(msgspec.Struct):
    values: list[JsonAny] | None = None


class JsonPairs(msgspec.Struct):
    values: list[JsonPair] | None = None


class JsonAny(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: Whole | None = None
    double_value: float | str | None = None
    array_value: JsonValues | None = None
    kvlist_value: JsonPairs | None = None
    bytes_value: str | None = None


class JsonPair(msgspec.Struct):
    key: str = ""
    value: JsonAny | None = None


class JsonEvent(msgspec.Struct, rename="camel"):
    name: str | None = None
    time_unix_nano: Whole | None = None
    attributes: list[JsonPair] | None = None


class JsonStatus(msgspec.Struct):
    code: Whole | None = None
    message: str | None = None


class JsonSpan(msgspec.Struct, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str | None = None
    name: str | None = None
    start_time_unix_nano: Whole | None = None
    end_time_unix_nano: Whole | None = None
    attributes: list[JsonPair] | None = None
    events: list[JsonEvent] | None = None
    status: JsonStatus | None = None


class JsonScopeSpans(msgspec.Struct):
    spans: list[JsonSpan] | None = None


class RawScopeSpans(msgspec.Struct):
    """Spans that are read one by one, as some of them are none."""

    spans: list[msgspec.Raw] | None = None


class JsonResource(msgspec.Struct):
    attributes: list[JsonPair] | None = None


class JsonResourceSpans(msgspec.Struct, rename="camel"):
    resource: JsonResource | None = None
    scope_spans: list[JsonScopeSpans] | None = None


class RawResourceSpans(msgspec.Struct, rename="camel"):
    resource: msgspec.Raw = msgspec.Raw(b"{}")
    scope_spans: list[RawScopeSpans] | None = None


class JsonRequest(msgspec.Struct, rename="camel"):
    resource_spans: list[JsonResourceSpans] | None = None


class RawRequest(msgspec.Struct, rename="camel"):
    resource_spans: list[RawResourceSpans] | None = None


DECODER, RAW_DECODER = msgspec.json.Decoder(JsonRequest), msgspec.json.Decoder(RawRequest)
SPAN_DECODER, RESOURCE_DECODER = msgspec.json.Decoder(JsonSpan), msgspec.json.Decoder(JsonResource | None)


Group = tuple[JsonResource | None, Sequence[JsonSpan | Refusal]]


def read_json(body: bytes, *, most: int) -> Iterator[Span | Refusal]:
    """At most so many spans. Raises InvalidInput for what is no export request, and TooLarge."""
    check_body(body, limit=MAX_BATCH, containers=MAX_MESSAGES, values=False)
    groups = _decode(_without_halves(body))
    count = sum(len(spans) for _, spans in groups)
    check_count(count, most)
    if count == 0:
        check_body(body, limit=MAX_BATCH, containers=MAX_MESSAGES)  # no span can be refused for what is wrong in it
    for resource, spans in groups:
        about = _lenient(resource)
        for span in spans:
            if isinstance(span, Refusal):
                yield span
                continue
            try:
                yield _span_of_json(span, about)
            except Unstorable as error:
                yield Refusal(span.span_id, str(error))


def _decode(body: bytes) -> list[Group]:
    """The spans of each resource. Where the body as a whole is no request, each span is read by itself, and at least
    one of them must be one."""
    try:
        request = DECODER.decode(body)
    except msgspec.ValidationError as error:
        groups = _decode_alone(body)
        if all(isinstance(span, Refusal) for _, spans in groups for span in spans):
            raise InvalidInput("The body is not an ExportTraceServiceRequest.", faults=[fault_of(error)]) from error
        return groups
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The body is not JSON: {error}") from error
    return [
        (one.resource, scope.spans or []) for one in request.resource_spans or [] for scope in one.scope_spans or []
    ]


def _decode_alone(body: bytes) -> list[Group]:
    try:
        request = RAW_DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return []
    return [
        (_read_resource(one.resource), [_read_alone(span) for span in scope.spans or []])
        for one in request.resource_spans or []
        for scope in one.scope_spans or []
    ]


def _read_alone(span: msgspec.Raw) -> JsonSpan | Refusal:
    try:
        return SPAN_DECODER.decode(span)
    except msgspec.ValidationError as error:
        named = SPAN_ID.search(bytes(span))
        return Refusal(named[1].decode().lower() if named else "", str(error))


def _read_resource(resource: msgspec.Raw) -> JsonResource | None:
    try:
        return RESOURCE_DECODER.decode(resource)
    except msgspec.ValidationError:
        return None


def _without_halves(body: bytes) -> bytes:
    """With a NUL for each half of a surrogate pair: it decodes, and costs the span that holds it and no other. An
    exporter that cuts text at so many UTF-16 units cuts through emoji."""
    if HALF.search(body) is None:
        return body
    replaced, count = HALF.subn(rb"\\u0000", body.replace(rb"\\", BACKSLASH), count=MOST_HALVES)
    if count == MOST_HALVES:
        raise InvalidInput("The body contains lone surrogates, which are not valid text.")
    return replaced.replace(BACKSLASH, rb"\\")


def _lenient(resource: JsonResource | None) -> dict[str, Any]:
    """A resource's attributes: one that cannot be kept is left out, since many spans share it."""
    about: dict[str, Any] = {}
    for pair in (resource.attributes if resource else None) or []:
        try:
            about |= _json_attributes([pair])
        except Unstorable:
            continue
    return about


def _span_of_json(span: JsonSpan, resource: Mapping[str, Any]) -> Span:
    status = span.status or JsonStatus()
    return Span(
        trace_id=span.trace_id.lower(),
        span_id=span.span_id.lower(),
        parent_id=(span.parent_span_id or "").lower(),
        name=kept(span.name or ""),
        start_ns=_whole(span.start_time_unix_nano or 0),
        end_ns=_whole(span.end_time_unix_nano or 0),
        attributes=_json_attributes(span.attributes),
        events=tuple(
            SpanEvent(kept(event.name or ""), _whole(event.time_unix_nano or 0), _json_attributes(event.attributes))
            for event in span.events or []
        ),
        failed=status.code in (2, "2", "STATUS_CODE_ERROR"),
        message=kept(status.message or ""),
        resource=resource,
    )


def _json_attributes(pairs: Iterable[JsonPair] | None) -> dict[str, Any]:
    return {kept(pair.key): kept(_json_value(pair.value)) for pair in pairs or []}


def _json_value(value: JsonAny | None) -> Any:
    """The body's own depth is bounded already."""
    if value is None:
        return None
    if value.string_value is not None:
        return value.string_value
    if value.bool_value is not None:
        return value.bool_value
    if value.int_value is not None:
        return _whole(value.int_value)
    if value.double_value is not None:
        return value.double_value
    if value.array_value is not None:
        return [_json_value(inner) for inner in value.array_value.values or []]
    if value.kvlist_value is not None:
        return {pair.key: _json_value(pair.value) for pair in value.kvlist_value.values or []}
    return value.bytes_value


def _whole(given: Whole) -> int:
    if isinstance(given, int):
        return given
    if len(given) > 20 or not given.removeprefix("-").isdecimal():
        raise Unstorable(f"{given[:40]!r} is not a whole number of 64 bits")
    return int(given)
