"""Walks through a protobuf request's bytes: what would parsing it cost, and where are its spans?"""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.descriptor import Descriptor
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from workspaces.errors import InvalidInput, TooLarge

MAX_MESSAGES = 300_000
"""Messages in a request, attributes and their values among them: an empty one is two bytes, and 200 in memory."""
MAX_FIELDS = 1_500_000

RESOURCE_SPANS, RESOURCE, SCOPE_SPANS, SPANS, SPAN_ID = 1, 1, 2, 2, 2
"""Numbers of fields, each in the message around it."""
Children = dict[int, "Children"]
"""Field numbers that hold messages, and theirs."""


def _children_of(message: Descriptor, known: dict[str, Children]) -> Children:
    if message.full_name not in known:
        found = known[message.full_name] = {}  # before its fields: an AnyValue holds a list of them
        for field in message.fields:
            if field.message_type is not None:
                found[field.number] = _children_of(field.message_type, known)
    return known[message.full_name]


ROOT = _children_of(ExportTraceServiceRequest.DESCRIPTOR, {})


def check_size(body: bytes) -> None:
    """Raises TooLarge for more messages or fields than are taken, and InvalidInput for what is no protobuf.

    Every field that holds messages is walked through and the others are skipped: one step for each field, and an end
    at the first too many.
    """
    messages = fields = 0
    pending = [(ROOT, 0, len(body))]
    try:
        while pending:
            children, at, end = pending.pop()
            while at < end:
                fields += 1
                if fields > MAX_FIELDS:
                    raise TooLarge(f"The request has more than {MAX_FIELDS} fields.")
                tag = body[at]
                at += 1
                if tag >= 0x80:
                    tag, at = _varint(body, at - 1)
                kind = tag & 7
                if kind == 2:
                    size = body[at]
                    at += 1
                    if size >= 0x80:
                        size, at = _varint(body, at - 1)
                    inner = children.get(tag >> 3)
                    if inner is not None:
                        messages += 1
                        if messages > MAX_MESSAGES:
                            raise TooLarge(
                                f"The request has more than {MAX_MESSAGES} messages; send fewer spans at once."
                            )
                        pending.append((inner, at, at + size))
                    at += size
                elif kind == 0:
                    while body[at] >= 0x80:
                        at += 1
                    at += 1
                elif kind in (1, 5):
                    at += 8 if kind == 1 else 4
                else:
                    raise InvalidInput("The body is not an ExportTraceServiceRequest: it holds a group.")
    except IndexError as error:
        raise InvalidInput("The body is not an ExportTraceServiceRequest: its end is missing.") from error


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """The number that begins at `at`, and where the next thing begins."""
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise InvalidInput("The body is not an ExportTraceServiceRequest: a number has more than 64 bits.")


def split_spans(body: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    """Gives each resource's own bytes and those of its spans, without reading them. The body has passed
    `check_size`."""
    for number, resource_spans in _messages(body):
        if number == RESOURCE_SPANS:
            inner = list(_messages(resource_spans))
            resource = b"".join(value for number, value in inner if number == RESOURCE)
            scopes = [_messages(value) for number, value in inner if number == SCOPE_SPANS]
            yield resource, [value for scope in scopes for number, value in scope if number == SPANS]


def id_of_span(span: bytes) -> bytes:
    """Empty where it has none."""
    return next((value for number, value in _messages(span) if number == SPAN_ID), b"")


def _messages(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Numbers and bytes of the fields that have a length; the others are skipped."""
    at = 0
    while at < len(body):
        tag, at = _varint(body, at)
        kind = tag & 7
        if kind == 2:
            size, at = _varint(body, at)
            yield tag >> 3, body[at : at + size]
            at += size
        elif kind == 0:
            _, at = _varint(body, at)
        else:
            at += 8 if kind == 1 else 4
