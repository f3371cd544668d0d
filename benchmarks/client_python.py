"""What recording costs the program that records: the Python client's time in the host's own thread.

    python -m benchmarks.client_python [--quick]

Blocks of 100 calls; the figures are microseconds of one call, from the blocks: the median of the thread's processor
time, and median and 99th percentile of the time on the clock, which others on the machine lengthen. Meanwhile the
client's own thread sends every item to a server that acknowledges all of it, in a process of its own; what the whole
process spends per item, sending included, is the last column. Prints a row per point and one JSON object as the last
line; exits 1 when a point misses its bound, when something was not acknowledged, or when anything was dropped.
"""

from __future__ import annotations

import argparse
import http.server
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from reckoner_client import Reckoner, Sending, hook_into_agent, tool

BLOCK = 100
BOUND_US = 50.0  # of processor time for one decision with a small state


class Acknowledge(http.server.BaseHTTPRequestHandler):
    """Keeps nothing, and says that it kept everything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        items = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kept = [
            {"index": n, "id": item.get("id", item.get("episode")), "duplicate": False} for n, item in enumerate(items)
        ]
        body = json.dumps({"kept": kept, "errors": []}).encode()
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def serve() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Acknowledge)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def points(client: Reckoner) -> dict[str, Callable[[], Any]]:
    small = {"text": "partial derivative of an expression", "user": "ann", "project": 17}
    large = {"messages": [{"role": "user", "content": "word " * 40} for _ in range(50)]}

    @tool
    def look_up(key: str) -> str:
        return key

    @client.recorded("assistant")
    def decorated(query: str) -> str:
        return query

    def run() -> None:
        with client.recording("assistant", small, policy_name="bench") as recording:
            recording.reason("because")
            look_up("a")
            look_up("b")
            recording.act("done")

    class Agent:
        name = "assistant"

        def call_tool(self, name: str, key: str) -> str:
            return key

        def run(self, query: str) -> str:
            return self.call_tool("look up", query)

    agent = Agent()
    hook_into_agent(agent, client)
    return {
        "a decision, 90 B of state": lambda: client.record_decision("filer", small, "graphs", policy_name="bench"),
        "a decision, 12 kB of state": lambda: client.record_decision("filer", large, "graphs", policy_name="bench"),
        "feedback": lambda: client.record_feedback("verdict", "confirmed", unit="note-17"),
        "a decorated function": lambda: decorated("hello"),
        "a recording with a thought and two tool calls": run,
        "a hooked agent's run with one tool call": lambda: agent.run("hello"),
        "a tool outside of any recording": lambda: look_up("a"),
    }


def measure(client: Reckoner, call: Callable[[], Any], blocks: int) -> dict[str, float]:
    before, process = client.stats(), time.process_time()
    cpu, clock = [], []
    for _ in range(blocks):
        began, spent = time.perf_counter(), time.thread_time()
        for _ in range(BLOCK):
            call()
        cpu.append((time.thread_time() - spent) / BLOCK * 1e6)
        clock.append((time.perf_counter() - began) / BLOCK * 1e6)
        if client.stats().pending > 20_000:
            client.flush(300)  # the host of a benchmark records faster than any agent: nothing shall be dropped
    client.flush(300)
    items = client.stats().recorded - before.recorded
    clock.sort()
    return {
        "cpu_us": round(statistics.median(cpu), 1),
        "clock_us": round(statistics.median(clock), 1),
        "clock_p99_us": round(clock[min(len(clock) - 1, int(len(clock) * 0.99))], 1),
        "items": items,
        "process_us_per_item": round((time.process_time() - process) / items * 1e6, 1) if items else 0.0,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20 blocks a point and not 200")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
    command = [sys.executable, "-m", "benchmarks.client_python", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}"
            client = Reckoner(url, "a.key", sending=Sending(queue_items=100_000))
            found = {}
            for name, call in points(client).items():
                call()
                found[name] = measure(client, call, 20 if given.quick else 200)
                row = "  ".join(f"{label} {figure:g}" for label, figure in found[name].items())
                print(f"{name:<48} {row}", flush=True)
            client.close(300)
            stats = client.stats()
        finally:
            server.terminate()
    kept = stats.acknowledged == stats.recorded and stats.dropped == stats.faults == 0
    fast = found["a decision, 90 B of state"]["cpu_us"] <= BOUND_US
    print(f"{'ok  ' if fast else 'FAIL'}  a decision: at most {BOUND_US:g} µs of processor time in the host's thread")
    print(f"{'ok  ' if kept else 'FAIL'}  all acknowledged, none dropped: {stats}")
    print(
        json.dumps(
            {"points": found, "recorded": stats.recorded, "acknowledged": stats.acknowledged, "ok": fast and kept}
        )
    )
    return 0 if fast and kept else 1


if __name__ == "__main__":
    sys.exit(main())
