"""Spans as instrumentations of several dialects write them, and a way to send them."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from django.utils import timezone
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from decisions.traces.spans import EPOCH, Span, SpanEvent

TRACE = "5b8efff798038103d269b633813fc60c"
START = (timezone.now() - dt.timedelta(minutes=5)).replace(microsecond=0)


def nanoseconds(seconds: float) -> int:
    """`seconds` after START."""
    return int((START - EPOCH).total_seconds()) * 10**9 + int(seconds * 1e9)


def make_span(
    span_id: int = 1,
    *,
    start: float = 0.0,
    seconds: float = 0.5,
    parent: int = 0,
    name: str = "work",
    trace: str = TRACE,
    events: tuple[tuple[str, dict[str, Any]], ...] = (),
    **more: Any,
) -> Span:
    return Span(
        trace_id=trace,
        span_id=f"{span_id:016x}",
        parent_id=f"{parent:016x}" if parent else "",
        name=name,
        start_ns=nanoseconds(start),
        end_ns=nanoseconds(start + seconds),
        attributes=more.pop("attributes", {}),
        events=tuple(SpanEvent(event, nanoseconds(start + seconds), given) for event, given in events),
        resource=more.pop("resource", {"service.name": "Notes App"}),
        **more,
    )


OLD_GENAI = {
    "attributes": {
        "gen_ai.system": "openai",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.usage.prompt_tokens": 11,
        "gen_ai.usage.completion_tokens": 3,
    },
    "events": (
        ("gen_ai.system.message", {"content": "be short"}),
        ("gen_ai.user.message", {"content": "which folder?"}),
        ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": json.dumps({"content": "travel"})}),
    ),
}
NEW_GENAI = {
    "attributes": {
        "gen_ai.provider.name": "openai",
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.response.model": "gpt-x-1",
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "be short"}]),
        "gen_ai.input.messages": json.dumps(
            [{"role": "user", "parts": [{"type": "text", "content": "which folder?"}]}]
        ),
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": "travel"}], "finish_reason": "stop"}]
        ),
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 3,
    }
}
OPENINFERENCE = {
    "attributes": {
        "openinference.span.kind": "LLM",
        "llm.provider": "openai",
        "llm.model_name": "gpt-x",
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "be short",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.contents.0.message_content.type": "text",
        "llm.input_messages.1.message.contents.0.message_content.text": "which folder?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "travel",
        "llm.token_count.prompt": 11,
        "llm.token_count.completion": 3,
        "input.value": "{}",
        "output.value": "{}",
    }
}
TRACELOOP = {
    "attributes": {
        "gen_ai.system": "openai",
        "llm.request.type": "chat",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "be short",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": "which folder?",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "travel",
        "gen_ai.usage.prompt_tokens": 11,
        "gen_ai.usage.completion_tokens": 3,
    }
}
DIALECTS = {"old GenAI": OLD_GENAI, "GenAI": NEW_GENAI, "OpenInference": OPENINFERENCE, "Traceloop": TRACELOOP}


def as_protobuf(*spans: Span) -> bytes:
    request = ExportTraceServiceRequest()
    for span in spans:
        resource = request.resource_spans.add()
        resource.resource.attributes.extend(_pairs(span.resource))
        made = resource.scope_spans.add().spans.add(
            trace_id=bytes.fromhex(span.trace_id),
            span_id=bytes.fromhex(span.span_id),
            parent_span_id=bytes.fromhex(span.parent_id),
            name=span.name,
            start_time_unix_nano=span.start_ns,
            end_time_unix_nano=span.end_ns,
            attributes=_pairs(span.attributes),
        )
        made.status.code = 2 if span.failed else 0
        made.status.message = span.message
        for event in span.events:
            made.events.add(name=event.name, time_unix_nano=event.at_ns, attributes=_pairs(event.attributes))
    return request.SerializeToString()


def _pairs(attributes: Any) -> list[KeyValue]:
    return [KeyValue(key=key, value=_any(value)) for key, value in attributes.items()]


def _any(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, bytes):
        return AnyValue(bytes_value=value)
    if isinstance(value, dict):
        return AnyValue(kvlist_value=KeyValueList(values=_pairs(value)))
    return AnyValue(array_value=ArrayValue(values=[_any(inner) for inner in value]))


def as_json(*spans: Span) -> bytes:
    """As the specification writes JSON: ids in hex, 64-bit integers as text, names in camel case."""
    return json.dumps(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": _json_pairs(span.resource)},
                    "scopeSpans": [
                        {
                            "scope": {"name": "tests"},
                            "spans": [
                                {
                                    "traceId": span.trace_id,
                                    "spanId": span.span_id.upper(),
                                    "parentSpanId": span.parent_id,
                                    "name": span.name,
                                    "kind": 3,
                                    "startTimeUnixNano": str(span.start_ns),
                                    "endTimeUnixNano": str(span.end_ns),
                                    "attributes": _json_pairs(span.attributes),
                                    "events": [
                                        {
                                            "name": event.name,
                                            "timeUnixNano": str(event.at_ns),
                                            "attributes": _json_pairs(event.attributes),
                                        }
                                        for event in span.events
                                    ],
                                    "status": {"code": 2 if span.failed else 0, "message": span.message},
                                    "aFieldOfTomorrow": True,
                                }
                            ],
                        }
                    ],
                }
                for span in spans
            ]
        }
    ).encode()


def _json_pairs(attributes: Any) -> list[dict[str, Any]]:
    return [{"key": key, "value": _json_any(value)} for key, value in attributes.items()]


def _json_any(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _json_pairs(value)}}
    return {"arrayValue": {"values": [_json_any(inner) for inner in value]}}
