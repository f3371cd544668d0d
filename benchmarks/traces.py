"""Spans over OTLP/HTTP: how many a second `/v1/traces` takes, and what they cost the web process and PostgreSQL.

    python -m benchmarks.traces [--quick]

An instance of its own (`manage.py up` in a temporary folder), asked over real HTTP by four clients at once with
requests of protobuf: 512 spans each, which is what the SDKs' batch processor sends; one trace of eight; and single
spans. A trace is an agent's run: its own span, three model calls with messages in and out, and four tool calls.
Everything that was sent has to be in the ledger afterwards. No bounds; prints a row per shape of request and one JSON
object as the last line; exits 1 when something is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from benchmarks.ingest import WORDS, Bench, Line, cpu_of, spread, start

SPANS_OF_A_TRACE = 8
SECOND = 10**9


class TraceLine(Line):
    """The same light connection, for protobuf."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url, "/v1/traces", token)
        self._head = self._head.replace("application/json", "application/x-protobuf")


def attribute(name: str, value: str | int) -> KeyValue:
    told = AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value)
    return KeyValue(key=name, value=told)


def messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def make_trace(rng: random.Random) -> list[Span]:
    """An agent's run of eight spans, about 5 kB."""
    trace, root = rng.randbytes(16), rng.randbytes(8)
    began = time.time_ns() - rng.randrange(60 * SECOND)
    spans = [
        Span(
            trace_id=trace, span_id=root, name="invoke_agent concierge", start_time_unix_nano=began,
            end_time_unix_nano=began + 8 * SECOND,
            attributes=[
                attribute("gen_ai.operation.name", "invoke_agent"),
                attribute("gen_ai.agent.name", "concierge"),
                attribute("gen_ai.conversation.id", f"session-{rng.randrange(1000)}"),
                attribute("user.id", f"user-{rng.randrange(50_000)}"),
            ],
        )
    ]  # fmt: skip
    for number in range(1, SPANS_OF_A_TRACE):
        text = " ".join(rng.choice(WORDS) for _ in range(60))
        if number % 2:
            name, told = "execute_tool search_notes", [
                attribute("gen_ai.operation.name", "execute_tool"),
                attribute("gen_ai.tool.name", "search_notes"),
                attribute("gen_ai.tool.call.arguments", json.dumps({"query": text[:40]})),
                attribute("gen_ai.tool.call.result", json.dumps([text])),
            ]  # fmt: skip
        else:
            name, told = "chat gpt-x", [
                attribute("gen_ai.operation.name", "chat"),
                attribute("gen_ai.provider.name", "openai"),
                attribute("gen_ai.request.model", "gpt-x"),
                attribute("gen_ai.input.messages", messages("user", text)),
                attribute("gen_ai.output.messages", messages("assistant", text[:80])),
                attribute("gen_ai.usage.input_tokens", 80),
                attribute("gen_ai.usage.output_tokens", 12),
            ]  # fmt: skip
        start_at = began + number * SECOND // 2
        spans.append(
            Span(
                trace_id=trace, span_id=rng.randbytes(8), parent_span_id=root, name=name, attributes=told,
                start_time_unix_nano=start_at, end_time_unix_nano=start_at + SECOND // 4,
            )
        )  # fmt: skip
    return spans


def make_requests(rng: random.Random, requests: int, spans: int) -> list[bytes]:
    """Traces one after the other, cut into requests of so many spans."""
    resource = Resource(attributes=[attribute("service.name", "notes-app")])
    made: list[bytes] = []
    waiting: list[Span] = []
    while len(made) < requests:
        while len(waiting) < spans:
            waiting += make_trace(rng)
        taken, waiting = waiting[:spans], waiting[spans:]
        request = ExportTraceServiceRequest(
            resource_spans=[ResourceSpans(resource=resource, scope_spans=[ScopeSpans(spans=taken)])]
        )
        made.append(request.SerializeToString())
    return made


def count(bench: Bench) -> dict[str, int]:
    tables = ("step", "decision", "episode")
    return {name: int(bench.instance.query(f"SELECT count(*) FROM decisions_{name}")[0][0]) for name in tables}


def send(bench: Bench, spans: int, requests: int) -> dict[str, Any]:
    """`requests` of `spans` spans each, by the clients of `benchmarks.ingest`."""
    bodies = make_requests(bench.rng, requests, spans)
    before = count(bench)
    spent = [0.0] * requests

    def work(_: int) -> Callable[[int], None]:
        line = TraceLine(bench.instance.url, bench.token)

        def one(number: int) -> None:
            began = time.perf_counter()
            status, answer = line.post(bodies[number])
            spent[number] = (time.perf_counter() - began) * 1000
            assert status == 200 and answer == b"", (status, answer[:500])

        return one

    web, servers = bench.web(), bench.servers()
    web_before, servers_before = cpu_of(web), cpu_of(servers)
    seconds = spread(requests, work)
    web_cpu, servers_cpu = cpu_of(web) - web_before, cpu_of(servers) - servers_before
    after = count(bench)
    sent = spans * requests
    ordered = sorted(spent)
    return {
        "spans": spans,
        "requests": requests,
        "bytes": sum(map(len, bodies)) // requests,
        "spans_a_second": round(sent / seconds),
        "web_cpu_us_a_span": round(web_cpu / sent * 1e6),
        "postgres_cpu_us_a_span": round(servers_cpu / sent * 1e6),
        "p50_ms": round(ordered[requests // 2], 1),
        "p99_ms": round(ordered[int(requests * 0.99)], 1),
        "missing": sent - (after["step"] - before["step"]),
        "decisions": after["decision"] - before["decision"],
        "episodes": after["episode"] - before["episode"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fifth of the requests")
    options = parser.parse_args()
    began = time.monotonic()
    load = os.getloadavg()[0]
    var = Path(tempfile.mkdtemp(prefix="reckoner-traces-"))
    bench = start(var)
    try:
        send(bench, 512, 8)  # imports, connections, the agent
        shapes = ((512, 100), (SPANS_OF_A_TRACE, 1500), (1, 2000))
        figures = [send(bench, spans, number // 5 if options.quick else number) for spans, number in shapes]
    finally:
        bench.instance.stop()
        shutil.rmtree(var, ignore_errors=True)
    for found in figures:
        print(
            f"{found['spans']:>4} spans a request: {found['spans_a_second']:>7,} spans a second, web CPU"
            f" {found['web_cpu_us_a_span']:>5} µs a span, PostgreSQL {found['postgres_cpu_us_a_span']:>5} µs, p50"
            f" {found['p50_ms']} ms, p99 {found['p99_ms']} ms, missing {found['missing']}"
        )
    passed = all(found["missing"] == 0 for found in figures)
    report = {"benchmark": "traces", "quick": options.quick, "passed": passed, "load_before": round(load, 1)}
    print(json.dumps({**report, "seconds": round(time.monotonic() - began, 1), "figures": figures}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
