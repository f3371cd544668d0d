"""What the gateway adds to a chat: beside the bare backend and the recording of a decision, in one run, in turn.

    python -m benchmarks.serving [--quick] [--litellm PROGRAM]

A real instance, whose backend is a stub in a process of its own: it answers at once, and streams 32 pieces. Each is
asked over one kept connection, one server after the other, in turn with the bare stub. `added` is the difference of
their medians; CPU is of the gateway's processes, and of a chat everything: key, route, open call, the stub's answer,
the decision with its commit. `recording` is one decision by POST /api/v1/decisions. `least` is a gateway that only
commits two rows and gives the answer on, on the same server, client and driver (`benchmarks.least_gateway`): what it
takes, ours cannot save. Then `decide`, which asks the same stub, with and without 64 streams that another process holds
open, each of which grows by five pieces a second.
`--litellm`: the program `litellm` of an installation of `litellm[proxy]`, asked beside them; without it that row is
left out, and the report says so. Prints rows and one JSON object as the last line; exits 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import http.server
import json
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from tools.instance import ROOT, Instance
from tools.ports import free_port
from tools.report import Report

MESSAGES = [{"role": "user", "content": "Which folder does a flight to Oslo belong in, and why? " * 4}]
PIECES = 32
USAGE = {"prompt_tokens": 60, "completion_tokens": PIECES, "total_tokens": 60 + PIECES}
ADDED_MS, CPU_MS = 4.0, 2.0
TIMES_RECORDING, TIMES_BESIDE_STREAMS = 2.0, 1.5
BLOCKS = 5
REST_SECONDS = 15
"""After the start, when a commit takes 3 to 5 ms instead of 1 for some seconds."""
STREAMS, PAUSE_SECONDS = 64, 0.2
RECORDER = "recorder"
SLOW = "slow"
"""The stub's model whose answers grow slowly."""


class Stub(http.server.BaseHTTPRequestHandler):
    """An OpenAI-compatible server without a model."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two packets, of which the second would wait

    def do_GET(self) -> None:
        self._reply({"data": [{"id": "stub"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked.get("stream"):
            self._stream(slow=asked["model"] == SLOW)
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

    def _stream(self, *, slow: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        deltas = [({"content": "word "}, None)] * PIECES + [({}, "stop")]
        while slow:
            time.sleep(PAUSE_SECONDS)
            self._piece({"choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]})
        for delta, reason in deltas:
            self._piece({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
        self._piece({"choices": [], "usage": USAGE})
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _piece(self, body: Any) -> None:
        self._chunk(b"data: " + json.dumps(body).encode() + b"\n\n")

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True  # who reads a slow answer leaves before its end

    def log_message(self, *args: object) -> None:
        pass


def serve_stub() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    server.daemon_threads = True
    server.socket.listen(2 * STREAMS)
    print(server.server_address[1], flush=True)
    server.serve_forever()


@contextmanager
def server_process(module: str, *arguments: str) -> Iterator[str]:
    """Runs a server in a process of its own, and returns its origin; the port is the first line that it prints."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.kill()


def stub_server() -> AbstractContextManager[str]:
    """Runs the stub as a server."""
    return server_process("benchmarks.serving", "--stub")


class Kept:
    """One kept connection."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self.connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self.headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}


class Line(Kept):
    """To a server of chats."""

    def __init__(self, url: str, model: str, token: str) -> None:
        super().__init__(url, token)
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


def hold_streams(url: str, model: str, token: str) -> None:
    """Says "open" when the first piece of every stream is there, and reads them until this process ends."""
    opened = threading.Barrier(STREAMS + 1)

    def read() -> None:
        line = Line(url, model, token)
        line.connection.request("POST", "/v1/chat/completions", line.bodies[True], line.headers)
        answer = line.connection.getresponse()
        assert answer.readline()
        opened.wait()
        while answer.readline():
            pass

    for _ in range(STREAMS):
        threading.Thread(target=read, daemon=True).start()
    opened.wait()
    print("open", flush=True)
    sys.stdin.read()


@contextmanager
def streams(url: str, model: str, token: str) -> Iterator[None]:
    """Another process has them open."""
    command = [sys.executable, "-m", "benchmarks.serving", "--hold", url, model, token]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "open"
        yield
        process.terminate()


class Service(Kept):
    """To the API."""

    def post(self, path: str, body: Any) -> Any:
        self.connection.request("POST", f"/api/v1/{path}", json.dumps(body), self.headers)
        answer = self.connection.getresponse()
        told = json.loads(answer.read())
        assert answer.status < 300, told
        return told

    def time(self, path: str, body: Any) -> float:
        """Milliseconds."""
        began = time.perf_counter()
        self.post(path, body)
        return (time.perf_counter() - began) * 1000


def start(var: Path, stub: str, *, root: Path = ROOT, **settings: str) -> tuple[Instance, str]:
    """The instance without demo and model server, two agents of texts on the stub; and a key. `settings` of the
    environment come before ours."""
    limits = {"RECKONER_KEY_REQUESTS_A_MINUTE": "0", "RECKONER_BACKEND_URLS": stub}
    instance = Instance(var, root=root, RECKONER_MODEL_SERVER_URL="http://127.0.0.1:9", **limits | settings)
    instance.start("--no-demo", "--port", str(free_port()), "--gateway-port", str(free_port()))
    token = instance.make_key("bench")
    service = Service(instance.url, token)
    backend = service.post("backends", {"name": "stub", "url": f"{stub}/v1"})
    for slug, model in (("helper", "stub"), ("slow-helper", SLOW)):
        agent = {"slug": slug, "name": slug, "prompt_template": "{{ input }}", "action_space": "text"}
        service.post("agents", agent)
        service.post("remote-versions", {"model": slug, "remote_name": model, "backend": backend["id"]})
    service.post("agents", {**agent, "slug": RECORDER, "name": RECORDER})
    return instance, token


@contextmanager
def litellm(program: Path, stub: str, folder: Path) -> Iterator[tuple[str, str, str]]:
    """The proxy's URL, its model on the stub, and its key."""
    key = f"sk-{secrets.token_hex(32)}"
    model = {"model": "openai/stub", "api_base": f"{stub}/v1", "api_key": "none"}
    config = folder / "litellm.json"  # JSON is YAML
    config.write_text(json.dumps({"model_list": [{"model_name": "helper", "litellm_params": model}]}))
    port = free_port()
    command = [str(program), "--config", str(config), "--port", str(port), "--host", "127.0.0.1"]
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": key}
    with (folder / "litellm.log").open("w") as said:
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=said, cwd=folder)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(180):
            try:
                with urllib.request.urlopen(f"{url}/health/liveliness", timeout=5):
                    break
            except (urllib.error.URLError, OSError):
                assert process.poll() is None, (folder / "litellm.log").read_text()[-2000:]
                time.sleep(1)
        else:
            raise RuntimeError(f"litellm did not start: {(folder / 'litellm.log').read_text()[-2000:]}")
        yield url, "helper", key
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def least(instance: Instance, stub: str) -> Iterator[tuple[str, psutil.Process]]:
    """The least gateway's URL, and its process."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.least_gateway", "--port", str(port), "--backend", stub]
    process = subprocess.Popen([*command, "--database", instance.services()["DATABASE_URL"]])
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert process.poll() is None, "the least gateway did not start"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}", psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def measure(
    instance: Instance,
    token: str,
    urls: Mapping[str, tuple[str, str, str]],
    processes: Mapping[str, Sequence[psutil.Process]],
    count: int,
) -> dict[str, Any]:
    """Every one of `urls` (name to URL, model and key) beside the bare backend, the two in turn, and recording; whole
    answers and streams in blocks, so that all meet the same machine. The first block of each only warms up: workers
    still load then."""
    lines = {name: Line(*place) for name, place in urls.items()}
    bare = lines.pop("bare")
    service = Service(instance.url, token)
    kinds = [(stream, name) for stream in (False, True) for name in lines]
    times: dict[tuple[bool, str], list[tuple[float, float]]] = {kind: [] for kind in kinds}
    beside: dict[tuple[bool, str], list[tuple[float, float]]] = {kind: [] for kind in kinds}
    spent = {(stream, name): 0.0 for stream in (False, True) for name in processes}
    recorded: list[float] = []
    for block in range(BLOCKS + 1):
        for stream in (False, True):
            for name, line in lines.items():
                before = cpu_of(processes.get(name, ()))
                pairs = [(bare.ask(stream=stream), line.ask(stream=stream)) for _ in range(count // BLOCKS)]
                if not block:
                    continue
                if name in processes:
                    spent[stream, name] += cpu_of(processes[name]) - before
                beside[stream, name] += [one for one, _ in pairs]
                times[stream, name] += [other for _, other in pairs]
        recording = [service.time("decisions", a_decision()) for _ in range(count // BLOCKS)]
        recorded += recording if block else []
    found: dict[str, Any] = {"recording_ms": median(recorded), "recording_p99_ms": p99(recorded)}
    for stream, kind in ((False, "whole"), (True, "stream")):
        found[kind] = {f"{name}_cpu_ms": round(spent[stream, name] / count * 1000, 2) for name in processes}
        for place, what in enumerate(("first_ms", "ms")):
            for name in lines:
                alone = median([one[place] for one in beside[stream, name]])
                took = median([one[place] for one in times[stream, name]])
                found[kind] |= {f"{name}_{what}": took, f"{name}_bare_{what}": alone}
                found[kind][f"{name}_added_{what}"] = round(took - alone, 2)
        found[kind] |= {f"{name}_p99_ms": p99([one[1] for one in times[stream, name]]) for name in lines}
    found["chats"] = 2 * (count // BLOCKS) * (BLOCKS + 1)
    found["decisions"] = instance.query(
        "SELECT count(*) FROM decisions_decision d JOIN decisions_agent a ON a.id = d.agent_id WHERE a.slug = 'helper'"
    )[0][0]
    return found


def measure_beside_streams(instance: Instance, token: str, count: int) -> dict[str, Any]:
    """`decide` with the streams and without, in turn."""
    service = Service(instance.url, token)
    times: dict[bool, list[float]] = {False: [], True: []}

    def decide(number: int) -> list[float]:
        return [service.time("agents/helper/decide", {"state": {"input": f"note {one}"}}) for one in range(number)]

    decide(20)  # workers still load
    for _ in range(BLOCKS):
        times[False] += decide(count // BLOCKS)
        with streams(instance.services()["GATEWAY_URL"], "slow-helper", token):
            decide(5)
            times[True] += decide(count // BLOCKS)
    return {
        "decide_ms": median(times[False]),
        "decide_p99_ms": p99(times[False]),
        "decide_beside_streams_ms": median(times[True]),
        "decide_beside_streams_p99_ms": p99(times[True]),
    }


def cpu_of(processes: Sequence[psutil.Process]) -> float:
    """Seconds."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def a_decision() -> dict[str, Any]:
    return {
        "external_id": str(uuid.uuid4()),
        "agent": RECORDER,
        "policy_name": "outside",
        "state": {"input": MESSAGES[0]["content"]},
        "action": "word " * PIECES,
    }


def median(times: list[float]) -> float:
    return round(statistics.median(times), 2)


def p99(times: list[float]) -> float:
    return round(sorted(times)[int(len(times) * 0.99)], 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer chats")
    parser.add_argument("--litellm", type=Path, help="the program, of an environment with litellm[proxy]")
    parser.add_argument("--stub", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--hold", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stub:
        serve_stub()
    if options.hold:
        hold_streams(*options.hold)
        return 0
    count = 200 if options.quick else 1000
    with tempfile.TemporaryDirectory() as folder, stub_server() as stub:
        instance, token = start(Path(folder) / "var", stub)
        urls = {
            "bare": (stub, "stub", "none"),
            "gateway": (instance.services()["GATEWAY_URL"], "helper", token),
        }
        gateway = instance.find("-m project.gateway")
        try:
            time.sleep(REST_SECONDS)
            with contextlib.ExitStack() as beside:
                url, process = beside.enter_context(least(instance, stub))
                urls["least"] = (url, "stub", "none")
                if options.litellm:
                    urls["litellm"] = beside.enter_context(litellm(options.litellm.resolve(), stub, Path(folder)))
                found = measure(instance, token, urls, {"gateway": gateway, "least": [process]}, count)
            found |= measure_beside_streams(instance, token, count)
        finally:
            instance.stop()
    print(json.dumps(found))
    return report_of(found).finish()


def report_of(found: Mapping[str, Any]) -> Report:
    report = Report("serving")
    for kind, what in (("whole", "added_ms"), ("stream", "added_first_ms")):
        name = f"{kind}: added to the bare backend, p50 of {'the first piece' if 'first' in what else 'the answer'}"
        figure = found[kind][f"gateway_{what}"]
        report.add(name, bound=f"≤ {ADDED_MS:g} ms", figure=f"{figure} ms", passed=figure <= ADDED_MS)
        report.add(f"{name}, by the least gateway", bound="", figure=f"{found[kind][f'least_{what}']} ms", passed=True)
        beside = found[kind].get(f"litellm_{what}")
        said = "left out: --litellm" if beside is None else f"{beside} ms"
        report.add(f"{name}, by LiteLLM", bound="", figure=said, passed=True)
    cpu = found["whole"]["gateway_cpu_ms"]
    report.add(
        "whole: CPU of the gateway's processes", bound=f"≤ {CPU_MS:g} ms", figure=f"{cpu} ms", passed=cpu <= CPU_MS
    )
    report.add("whole: CPU of the least gateway", bound="", figure=f"{found['whole']['least_cpu_ms']} ms", passed=True)
    times = found["whole"]["gateway_p99_ms"] / found["recording_p99_ms"]
    report.add(
        "whole: p99 to that of recording a decision",
        bound=f"≤ {TIMES_RECORDING:g}",
        figure=f"{times:.2f} ({found['whole']['gateway_p99_ms']} to {found['recording_p99_ms']} ms)",
        passed=times <= TIMES_RECORDING,
    )
    beside = found["decide_beside_streams_p99_ms"] / found["decide_p99_ms"]
    report.add(
        f"decide: p99 beside {STREAMS} open streams to that without",
        bound=f"≤ {TIMES_BESIDE_STREAMS:g}",
        figure=f"{beside:.2f} ({found['decide_beside_streams_p99_ms']} to {found['decide_p99_ms']} ms)",
        passed=beside <= TIMES_BESIDE_STREAMS,
    )
    chats, kept = found["chats"], found["decisions"]
    report.add("every chat is a decision", bound=str(chats), figure=kept, passed=kept == chats)
    return report


if __name__ == "__main__":
    sys.exit(main())
