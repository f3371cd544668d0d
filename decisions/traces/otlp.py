"""OTLP/HTTP: decodes a request's bytes into spans, from protobuf or JSON, and encodes the answers.

Specification: https://opentelemetry.io/docs/specs/otlp/ (1.8). A whole request is refused only where it cannot be
decoded; a span that cannot be kept is refused alone and counted in `partial_success`.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1 import trace_pb2

from decisions.ingest.decoding import fault_of
from decisions.traces.messages import MAX_DEPTH
from decisions.traces.spans import Span, SpanEvent
from decisions.traces.wire import MAX_MESSAGES, check_size
from workspaces.errors import InvalidInput, TooLarge
from workspaces.http.parsing import MAX_BATCH, MAX_BODY, check_body
from workspaces.storage.storable import is_storable

PROTOBUF, JSON = "application/x-protobuf", "application/json"
MAX_SPANS = 10_000
MAX_MEMBERS = 16
"""Compressed files in a row in one body: what follows a file is copied for the next."""
MAX_RATIO = 20
"""How many times its size a body may inflate to, beyond the first MAX_BODY bytes."""
ENCODINGS = {"": None, "identity": None, "gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a span was not kept; `span_id` as far as it could be read."""

    span_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Request:
    spans: tuple[Span, ...]
    refused: tuple[Refusal, ...]


class Unstorable(ValueError):
    """A value that text or JSON in the database cannot hold."""


def inflate(body: bytes, encoding: str) -> bytes:
    """The body without its Content-Encoding, which is one of ENCODINGS. Raises TooLarge or InvalidInput, and never
    makes more of a small body than the limits allow."""
    window = ENCODINGS[encoding]
    if window is None:
        return body
    parts: list[bytes] = []
    size, rest = 0, body
    while rest:
        if len(parts) == MAX_MEMBERS:
            raise InvalidInput(f"The body has more than {MAX_MEMBERS} {encoding} members. Send it as one.")
        inflater = zlib.decompressobj(window)
        try:
            part = inflater.decompress(rest, MAX_BATCH + 1 - size)
        except zlib.error as error:
            raise InvalidInput(f"The body is not {encoding}: {error}") from error
        size += len(part)
        if size > MAX_BATCH:
            raise TooLarge(f"The body inflates to more than {MAX_BATCH} bytes.")
        if not inflater.eof:
            raise InvalidInput(f"The body is {encoding}, but its end is missing.")
        parts.append(part)
        rest = inflater.unused_data  # gzip may be several files in a row
    if size > max(MAX_BODY, MAX_RATIO * len(body)):
        raise TooLarge(f"The body inflates from {len(body)} to {size} bytes, more than {MAX_RATIO} times its size.")
    return b"".join(parts)


def read_request(body: bytes, media_type: str) -> Request:
    """Raises InvalidInput for what is no export request, TooLarge for one with too many spans."""
    read = list(_read_json(body) if media_type == JSON else _read_protobuf(body))
    spans = tuple(one for one in read if isinstance(one, Span))
    return Request(spans, tuple(one for one in read if isinstance(one, Refusal)))


def _check_count(count: int) -> None:
    if count > MAX_SPANS:
        raise TooLarge(f"The request has {count} spans; at most {MAX_SPANS} are allowed.")


# Protobuf


def _read_protobuf(body: bytes) -> Iterator[Span | Refusal]:
    request = ExportTraceServiceRequest()
    check_size(body)
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise InvalidInput(f"The body is not an ExportTraceServiceRequest: {error}") from error
    _check_count(sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans))
    for resource_spans in request.resource_spans:
        resource = _lenient(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                try:
                    yield _span_of_protobuf(span, resource)
                except Unstorable as error:
                    yield Refusal(span.span_id.hex(), str(error))


def _span_of_protobuf(span: trace_pb2.Span, resource: Mapping[str, Any]) -> Span:
    return Span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        name=_kept(span.name),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        events=tuple(SpanEvent(_kept(e.name), e.time_unix_nano, _attributes(e.attributes)) for e in span.events),
        failed=span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
        message=_kept(span.status.message),
        resource=resource,
    )


def _attributes(pairs: Iterable[Any]) -> dict[str, Any]:
    return {_kept(pair.key): _kept(_value(pair.value)) for pair in pairs}


def _lenient(pairs: Iterable[Any]) -> dict[str, Any]:
    """A resource's attributes: one that cannot be kept is left out, since many spans share it."""
    found: dict[str, Any] = {}
    for pair in pairs:
        try:
            found |= _attributes([pair])
        except Unstorable:
            continue
    return found


def _kept(value: Any) -> Any:
    if not is_storable(value, MAX_DEPTH):
        raise Unstorable("it holds a NUL, a lone surrogate, an integer beyond 64 bits, or nesting that is too deep")
    return value


def _value(value: Any, depth: int = 0) -> Any:
    """An AnyValue of either encoding's message: both have the same names."""
    if depth > MAX_DEPTH:
        raise Unstorable("an attribute is nested too deeply")
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    given = getattr(value, kind)
    if kind == "array_value":
        return [_value(inner, depth + 1) for inner in given.values]
    if kind == "kvlist_value":
        return {pair.key: _value(pair.value, depth + 1) for pair in given.values}
    if kind == "bytes_value":
        return given if isinstance(given, str) else base64.b64encode(given).decode()
    if kind == "double_value":
        return given if math.isfinite(given) else str(given)  # jsonb has no such numbers
    return given


# JSON. Not protobuf's own mapping: ids are hex here, and enumerations are numbers.

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


class JsonResource(msgspec.Struct):
    attributes: list[JsonPair] | None = None


class JsonResourceSpans(msgspec.Struct, rename="camel"):
    resource: JsonResource | None = None
    scope_spans: list[JsonScopeSpans] | None = None


class JsonRequest(msgspec.Struct, rename="camel"):
    resource_spans: list[JsonResourceSpans] | None = None


DECODER = msgspec.json.Decoder(JsonRequest)


def _read_json(body: bytes) -> Iterator[Span | Refusal]:
    check_body(body, limit=MAX_BATCH, containers=MAX_MESSAGES)
    try:
        request = DECODER.decode(body)
    except msgspec.ValidationError as error:
        raise InvalidInput("The body is not an ExportTraceServiceRequest.", faults=[fault_of(error)]) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The body is not JSON: {error}") from error
    groups = [
        (resource_spans.resource, scope.spans or [])
        for resource_spans in request.resource_spans or []
        for scope in resource_spans.scope_spans or []
    ]
    _check_count(sum(len(spans) for _, spans in groups))
    for resource, spans in groups:
        about: dict[str, Any] = {}
        for pair in (resource.attributes if resource else None) or []:
            try:
                about |= _json_attributes([pair])
            except Unstorable:
                continue
        for span in spans:
            try:
                yield _span_of_json(span, about)
            except Unstorable as error:
                yield Refusal(span.span_id, str(error))


def _span_of_json(span: JsonSpan, resource: Mapping[str, Any]) -> Span:
    status = span.status or JsonStatus()
    return Span(
        trace_id=span.trace_id.lower(),
        span_id=span.span_id.lower(),
        parent_id=(span.parent_span_id or "").lower(),
        name=span.name or "",
        start_ns=_whole(span.start_time_unix_nano or 0),
        end_ns=_whole(span.end_time_unix_nano or 0),
        attributes=_json_attributes(span.attributes),
        events=tuple(
            SpanEvent(event.name or "", _whole(event.time_unix_nano or 0), _json_attributes(event.attributes))
            for event in span.events or []
        ),
        failed=status.code in (2, "2", "STATUS_CODE_ERROR"),
        message=status.message or "",
        resource=resource,
    )


def _json_attributes(pairs: Iterable[JsonPair] | None) -> dict[str, Any]:
    return {pair.key: _kept(_json_value(pair.value)) for pair in pairs or []}


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


# Answers


def answer(media_type: str, *, rejected: int, message: str) -> bytes:
    """Empty where everything was kept. A message beside 0 rejected spans is a warning."""
    if media_type == JSON:
        if not rejected and not message:
            return b"{}"
        partial = {"rejectedSpans": str(rejected), "errorMessage": message}
        return msgspec.json.encode({"partialSuccess": partial})
    response = ExportTraceServiceResponse()
    if rejected or message:
        response.partial_success.CopyFrom(ExportTracePartialSuccess(rejected_spans=rejected, error_message=message))
    return response.SerializeToString()


def refusal(media_type: str, envelope: Mapping[str, Any]) -> bytes:
    """A google.rpc.Status, as the specification asks. In JSON our own envelope stands beside it."""
    message = str(envelope["error"]["message"])
    faults = "; ".join(f"{fault['field']}: {fault['reason']}" for fault in envelope["error"]["fields"])
    message = f"{message} {faults}".strip()
    if media_type == JSON:
        return msgspec.json.encode({"message": message, **envelope})
    return Status(message=message).SerializeToString()
