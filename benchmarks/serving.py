"""What the gateway adds to a chat: beside the bare backend, in one run, request by request in turn.

    python -m benchmarks.serving [--quick]

A real instance, whose backend is a stub in a process of its own: it answers at once, and streams 32 pieces. Both are
asked over one kept connection each. `added` is the difference of the medians; CPU is the gateway's own process, and of
a chat everything: key, route, open call, the stub's answer, the decision with its commit. Prints rows and one JSON
object as the last line; exits 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import http.client
import http.server
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.ingest import free_port
from tools.instance import Instance
from tools.report import Report

MESSAGES = [{"role": "user", "content": "Which folder does a flight to Oslo belong in, and why? " * 4}]
PIECES = 32
USAGE = {"prompt_tokens": 60, "completion_tokens": PIECES, "total_tokens": 60 + PIECES}
ADDED_MS, CPU_MS = 4.0, 2.0
BLOCKS = 5


class Stub(http.server.BaseHTTPRequestHandler):
    """An OpenAI-compatible server without a model."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two packets, of which the second would wait

    def do_GET(self) -> None:
        self._reply({"data": [{"id": "stub"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked.get("stream"):
            self._stream()
            return
        message = {"role": "assistant", "content": "word " * PIECES}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        self._reply({"object": "chat.completion", "choices": choices, "usage": USAGE})

    def _reply(self, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        deltas = [({"content": "word "}, None)] * PIECES + [({}, "stop")]
        for delta, reason in deltas:
            self._piece({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
        self._piece({"choices": [], "usage": USAGE})
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _piece(self, body: Any) -> None:
        self._chunk(b"data: " + json.dumps(body).encode() + b"\n\n")

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))

    def log_message(self, *args: object) -> None:
        pass


def serve_stub() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


class Line:
    """One kept connection to a server of chats."""

    def __init__(self, url: str, model: str, token: str) -> None:
        parts = urlsplit(url)
        self.connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self.headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        self.bodies = {
            stream: json.dumps({"model": model, "messages": MESSAGES} | ({"stream": True} if stream else {})).encode()
            for stream in (False, True)
        }

    def ask(self, *, stream: bool) -> tuple[float, float]:
        """Milliseconds to the first line of the answer's body, and to its end."""
        began = time.perf_counter()
        self.connection.request("POST", "/v1/chat/completions", self.bodies[stream], self.headers)
        answer = self.connection.getresponse()
        head = answer.readline()
        first = time.perf_counter()
        rest = answer.read()
        assert answer.status == 200, head + rest
        assert not stream or rest.rstrip().endswith(b"data: [DONE]"), rest[-200:]
        return (first - began) * 1000, (time.perf_counter() - began) * 1000


def start(var: Path, stub: str) -> tuple[Instance, str]:
    """The instance without demo and model server, an agent of texts on the stub; and a key."""
    limits = {"RECKONER_KEY_REQUESTS_A_MINUTE": "0", "RECKONER_BACKEND_URLS": stub}
    instance = Instance(var, RECKONER_MODEL_SERVER_URL="http://127.0.0.1:9", **limits)
    instance.start("--no-demo", "--port", str(free_port()), "--gateway-port", str(free_port()))
    token = json.loads(instance.manage("create_key", "bench", "--scope", "admin", "--json").stdout)["key"]
    agent = {"slug": "helper", "name": "Helper", "prompt_template": "{{ input }}", "action_space": "text"}
    _post(instance.url, token, "agents", agent)
    backend = _post(instance.url, token, "backends", {"name": "stub", "url": f"{stub}/v1"})
    _post(instance.url, token, "remote-versions", {"model": "helper", "remote_name": "stub", "backend": backend["id"]})
    return instance, token


def _post(url: str, token: str, path: str, body: Any) -> Any:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    connection.request("POST", f"/api/v1/{path}", json.dumps(body), headers)
    answer = connection.getresponse()
    told = json.loads(answer.read())
    assert answer.status < 300, told
    return told


def measure(instance: Instance, token: str, stub: str, count: int) -> dict[str, Any]:
    """Bare and through the gateway in turn, whole answers and streams in blocks, so that all meet the same machine. The
    first block of each only warms up: workers still load then."""
    gateway = instance.services()["GATEWAY_URL"]
    lines = {"bare": Line(stub, "stub", "none"), "gateway": Line(gateway, "helper", token)}
    [process] = instance.find("-m project.gateway")
    times: dict[tuple[bool, str], list[tuple[float, float]]] = {
        (stream, name): [] for stream in (False, True) for name in lines
    }
    spent = {False: 0.0, True: 0.0}
    for block in range(BLOCKS + 1):
        for stream in (False, True):
            before = sum(process.cpu_times()[:2])
            told = [(name, line.ask(stream=stream)) for _ in range(count // BLOCKS) for name, line in lines.items()]
            if block:
                spent[stream] += sum(process.cpu_times()[:2]) - before
                for name, one in told:
                    times[stream, name].append(one)
    found: dict[str, Any] = {}
    for stream, kind in ((False, "whole"), (True, "stream")):
        found[kind] = {"gateway_cpu_ms": round(spent[stream] / count * 1000, 2)}
        for place, what in enumerate(("first_ms", "ms")):
            p50 = {name: statistics.median(one[place] for one in times[stream, name]) for name in lines}
            found[kind] |= {f"{name}_{what}": round(value, 2) for name, value in p50.items()}
            found[kind][f"added_{what}"] = round(p50["gateway"] - p50["bare"], 2)
        ordered = sorted(one[1] for one in times[stream, "gateway"])
        found[kind]["gateway_p99_ms"] = round(ordered[int(len(ordered) * 0.99)], 2)
    found["chats"] = 2 * (count // BLOCKS) * (BLOCKS + 1)
    found["decisions"] = instance.query("SELECT count(*) FROM decisions_decision")[0][0]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer chats")
    parser.add_argument("--stub", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stub:
        serve_stub()
    command = [sys.executable, "-m", "benchmarks.serving", "--stub"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    stub = f"http://127.0.0.1:{server.stdout.readline().strip()}"
    report = Report("serving")
    with tempfile.TemporaryDirectory() as folder:
        instance, token = start(Path(folder), stub)
        try:
            found = measure(instance, token, stub, 200 if options.quick else 1000)
        finally:
            instance.stop()
            server.terminate()
            server.wait(30)
    for kind, what in (("whole", "added_ms"), ("stream", "added_first_ms")):
        figure = found[kind][what]
        name = f"{kind}: added to the bare backend, p50 of {'the first piece' if 'first' in what else 'the answer'}"
        report.add(name, bound=f"≤ {ADDED_MS:g} ms", figure=f"{figure} ms", passed=figure <= ADDED_MS)
    cpu = found["whole"]["gateway_cpu_ms"]
    report.add(
        "whole: CPU of the gateway's process", bound=f"≤ {CPU_MS:g} ms", figure=f"{cpu} ms", passed=cpu <= CPU_MS
    )
    chats, kept = found["chats"], found["decisions"]
    report.add("every chat is a decision", bound=str(chats), figure=kept, passed=kept == chats)
    print(json.dumps(found))
    return 0 if all(row.passed for row in report.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
