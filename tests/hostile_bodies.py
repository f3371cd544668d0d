"""What it costs to refuse bodies that are made to cost: `python -m tests.hostile_bodies` prints one JSON object with
the processor's seconds and the megabytes of each, in a process of its own."""

from __future__ import annotations

import gzip
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from functools import partial

import django
import opentelemetry.proto.collector.trace.v1.trace_service_pb2  # noqa: F401 - loaded before anything is measured

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings_test")
django.setup()

from decisions.traces import otlp  # noqa: E402
from workspaces.errors import ReckonerError  # noqa: E402
from workspaces.http.parsing import MAX_BATCH, check_body, inflate  # noqa: E402

Refuse = Callable[[bytes], object]


def _nested(fields: bytes, content: bytes) -> bytes:
    """Protobuf: the content within a message of each field, the last of them innermost."""
    for field in reversed(fields):
        length, size = b"", len(content)
        while size > 127:
            length += bytes([size & 127 | 128])
            size >>= 7
        content = bytes([field << 3 | 2]) + length + bytes([size]) + content
    return content


def _json_span(field: bytes, content: bytes) -> bytes:
    return b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"%s":[%s]}]}]}]}' % (field, content)


def _repeated(piece: bytes, room: int = 200) -> bytes:
    return piece * ((MAX_BATCH - room) // len(piece))


def list_bodies() -> dict[str, tuple[bytes, tuple[Refuse, ...]]]:
    """Each body, as large as one may be, with those that have to refuse it."""
    unpack = (partial(inflate, limit=MAX_BATCH), partial(otlp.inflate, encoding="gzip"))
    check = partial(check_body, limit=MAX_BATCH)
    parse = partial(otlp.read_request, media_type=otlp.JSON)
    parse_protobuf = partial(otlp.read_request, media_type=otlp.PROTOBUF)
    brackets = (check, parse)
    return {
        "empty gzip members": (_repeated(gzip.compress(b"")), unpack),
        "gzip members of a byte": (_repeated(gzip.compress(b"x")), unpack),
        "attributes of a span": (_nested(b"\x01\x02\x02", b"\x4a\x00" * (MAX_BATCH // 2 - 50)), (parse_protobuf,)),
        "attributes of a resource": (_nested(b"\x01\x01", b"\x0a\x00" * (MAX_BATCH // 2 - 50)), (parse_protobuf,)),
        "attributes in JSON": (_json_span(b"attributes", _repeated(b"{},") + b"{}"), brackets),
        "opening brackets": (b"[" * MAX_BATCH, brackets),
        "pairs of brackets": (b"[" + _repeated(b"[],") + b"[]]", brackets),
        "objects in objects": (_repeated(b'{"a":'), brackets),
        "lists closed in the end": (b"[" * (MAX_BATCH // 2) + b"]" * (MAX_BATCH // 2), brackets),
    }


def measure(body: bytes, refuse: Refuse) -> dict[str, object]:
    """In a fork, whose memory begins with what this process has."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        refused = ""
        try:
            refuse(body)
        except ReckonerError as error:
            refused = error.message
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        cost = {"seconds": time.process_time() - began, "megabytes": grown / 1024, "refused": refused[:200]}
        os.write(writing, json.dumps(cost).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        return json.loads(pipe.read())  # type: ignore[no-any-return]


if __name__ == "__main__":
    found = {
        f"{name}, {number}": measure(body, refuse)
        for name, (body, refusers) in list_bodies().items()
        for number, refuse in enumerate(refusers)
    }
    sys.stdout.write(json.dumps(found))
