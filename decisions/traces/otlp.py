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
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2

from decisions.traces.messages import MAX_DEPTH
from decisions.traces.otlp_json import read_json
from decisions.traces.refusals import Refusal, Unstorable, check_count, kept
from decisions.traces.spans import Span, SpanEvent
from decisions.traces.wire import check_size, id_of_span, split_spans
from workspaces.errors import InvalidInput, TooLarge
from workspaces.http.parsing import MAX_BATCH, MAX_BODY

PROTOBUF, JSON = "application/x-protobuf", "application/json"
MAX_SPANS = 10_000
MAX_MEMBERS = 16
"""Compressed files in a row in one body: what follows a file is copied for the next."""
MAX_RATIO = 20
"""How many times its size a body may inflate to, beyond the first MAX_BODY bytes."""
ENCODINGS = {"": None, "identity": None, "gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


@dataclass(frozen=True, slots=True)
class Request:
    spans: tuple[Span, ...]
    refused: tuple[Refusal, ...]


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
    read = list(read_json(body, most=MAX_SPANS) if media_type == JSON else _read_protobuf(body))
    spans = tuple(one for one in read if isinstance(one, Span))
    return Request(spans, tuple(one for one in read if isinstance(one, Refusal)))


# Protobuf


def _read_protobuf(body: bytes) -> Iterator[Span | Refusal]:
    check_size(body)
    for resource, spans in _groups(body):
        about = _lenient(resource.attributes)
        for span in spans:
            if isinstance(span, Refusal):
                yield span
                continue
            try:
                yield _span_of_protobuf(span, about)
            except Unstorable as error:
                yield Refusal(span.span_id.hex(), str(error))


def _groups(body: bytes) -> list[tuple[Resource, list[trace_pb2.Span | Refusal]]]:
    """The spans of each resource. Text that is not UTF-8 fails a message as a whole: then each span is read alone."""
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        split = list(split_spans(body))
        check_count(count := sum(len(spans) for _, spans in split), MAX_SPANS)
        if not count:
            raise InvalidInput(f"The body is not an ExportTraceServiceRequest: {error}") from error
        return [(_read_resource(resource), list(map(_read_alone, spans))) for resource, spans in split]
    resources = request.resource_spans
    check_count(sum(len(scope.spans) for one in resources for scope in one.scope_spans), MAX_SPANS)
    return [(one.resource, [span for scope in one.scope_spans for span in scope.spans]) for one in resources]


def _read_alone(span: bytes) -> trace_pb2.Span | Refusal:
    try:
        return trace_pb2.Span.FromString(span)
    except DecodeError:
        return Refusal(id_of_span(span).hex(), "it is no span, or holds text that is not UTF-8")


def _read_resource(resource: bytes) -> Resource:
    try:
        return Resource.FromString(resource)
    except DecodeError:
        return Resource()


def _span_of_protobuf(span: trace_pb2.Span, resource: Mapping[str, Any]) -> Span:
    return Span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        name=kept(span.name),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        events=tuple(SpanEvent(kept(e.name), e.time_unix_nano, _attributes(e.attributes)) for e in span.events),
        failed=span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
        message=kept(span.status.message),
        resource=resource,
    )


def _attributes(pairs: Iterable[Any]) -> dict[str, Any]:
    return {kept(pair.key): kept(_value(pair.value)) for pair in pairs}


def _lenient(pairs: Iterable[Any]) -> dict[str, Any]:
    """A resource's attributes: one that cannot be kept is left out, since many spans share it."""
    found: dict[str, Any] = {}
    for pair in pairs:
        try:
            found |= _attributes([pair])
        except Unstorable:
            continue
    return found


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
