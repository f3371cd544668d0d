"""What the model server gains by serving together: scores, a late chat, many streams.

    python -m benchmarks.serving_engine [--quick] [--shape half-billion]

Starts the server, with one torch thread, over a store with one base of random weights: of the engine's tiny shape, or
of Qwen2.5-0.5B's, which needs a GPU. The client is a process of its own that sends ready-made bytes. What is compared
takes turns, so that other work on the machine meets both alike:

- decisions a second through /score, asked one at a time and by 32 clients at once, and the server's CPU time for each;
- a short chat alone, and one that comes while long ones are answered, against the length of those;
- tokens a second of one stream and of 16.

Prints a row per point and one JSON object as the last line; exits 1 when a point misses its bound.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import shutil
import socket
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import torch

from benchmarks.serving_gpu import put
from tools.big_model import SHAPES, Task, make_base
from tools.model_server import running_model_server
from tools.report import Report
from training.engine.models.loading import Loaded, build_tiny, build_tokenizer, save
from training.engine.spec.run_spec import TinyShape

TINY = "tiny"
TOKEN = "of-this-benchmark"
CLIENTS = 32
STREAMS = 16
LONG_CHATS, LONG_TOKENS, SHORT_TOKENS = 8, 400, 8
ENDLESS = {"1": -100}
"""A bias against the end of sequence: every answer is as long as it may be."""


class Line:
    """One connection that stays open. The client must cost little beside what it measures."""

    def __init__(self, address: str) -> None:
        at = urlsplit(address)
        self._socket = socket.create_connection((at.hostname or "", at.port or 80))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = self._socket.makefile("rb")

    def post(self, path: str, body: bytes) -> bytes:
        """The answer's body, whole or chunked."""
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body)
        status = self._read.readline()
        length = None
        while (line := self._read.readline().strip().lower()) != b"":
            name, _, value = line.partition(b":")
            if name == b"content-length":
                length = int(value)
        answer = self._read.read(length) if length is not None else self._chunks()
        if b" 200 " not in status:
            raise RuntimeError(f"{path}: {status!r} {answer[:300]!r}")
        return answer

    def _chunks(self) -> bytes:
        found = b""
        while size := int(self._read.readline(), 16):
            found += self._read.read(size)
            self._read.readline()
        self._read.readline()
        return found


def score_bodies(model: str, task: Task, count: int, seed: int) -> list[bytes]:
    return [
        json.dumps({"items": [{"model": model, "prompt": row["prompt"], "options": task.options}]}).encode()
        for row in task.labelled(count, seed)
    ]


def decisions_a_second(address: str, bodies: list[bytes], clients: int, seconds: float) -> float:
    """In this process, by so many threads with a connection each."""
    lines = [Line(address) for _ in range(clients)]

    def ask(number: int) -> tuple[int, float, float]:
        rng = random.Random(number)
        done, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            answer = lines[number].post("/score", rng.choice(bodies))
            assert b"probabilities" in answer, answer
            done += 1
        return done, began, time.perf_counter()

    with ThreadPoolExecutor(clients) as callers:
        found = list(callers.map(ask, range(clients)))
    took = max(end for _, _, end in found) - min(begin for _, begin, _ in found)
    return sum(done for done, _, _ in found) / took


def chat_body(model: str, prompt: str, tokens: int, *, stream: bool) -> bytes:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        "logit_bias": ENDLESS,
        "stream": stream,
    }
    return json.dumps(body).encode()


def stream_chats(address: str, model: str, prompts: list[str], tokens: int) -> float:
    """Seconds that so many streams at once take."""
    lines = [Line(address) for _ in prompts]

    def ask(number: int) -> None:
        answer = lines[number].post("/v1/chat/completions", chat_body(model, prompts[number], tokens, stream=True))
        assert answer.endswith(b"data: [DONE]\n\n"), answer[-300:]

    began = time.perf_counter()
    with ThreadPoolExecutor(len(prompts)) as callers:
        list(callers.map(ask, range(len(prompts))))
    return time.perf_counter() - began


def ask_late(address: str, model: str, prompts: list[str], asks: int) -> tuple[list[float], list[float]]:
    """Seconds of each long chat, and of short ones one after another while all of the long ones are answered."""
    lines = [Line(address) for _ in range(LONG_CHATS)]

    def ask(number: int) -> float:
        began = time.perf_counter()
        lines[number].post("/v1/chat/completions", chat_body(model, prompts[number], LONG_TOKENS, stream=False))
        return time.perf_counter() - began

    with ThreadPoolExecutor(LONG_CHATS) as callers:
        long = [callers.submit(ask, number) for number in range(LONG_CHATS)]
        time.sleep(0.1)
        late = []
        for _ in range(asks):
            took = ask_short(address, model, prompts[-1])
            if not any(one.done() for one in long):
                late.append(took)
        return [one.result() for one in long], late


def ask_short(address: str, model: str, prompt: str) -> float:
    line = Line(address)
    began = time.perf_counter()
    line.post("/v1/chat/completions", chat_body(model, prompt, SHORT_TOKENS, stream=False))
    return time.perf_counter() - began


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)


def score_round(address: str, pid: int, bodies: list[bytes], clients: int, seconds: float) -> tuple[float, float]:
    """Decisions a second, and milliseconds of the server's CPU for each."""
    before, began = cpu_seconds(pid), time.perf_counter()
    rate = decisions_a_second(address, bodies, clients, seconds)
    return rate, 1000 * (cpu_seconds(pid) - before) / (rate * (time.perf_counter() - began))


def measure(address: str, pid: int, model: str, task: Task, quick: bool, results: Any) -> None:
    """The client's process; `pid` is the server's."""
    rounds, seconds = (2, 1.0) if quick else (6, 4.0)
    bodies = score_bodies(model, task, 256, seed=1)
    prompts = [row["prompt"] for row in task.labelled(STREAMS, seed=2)]
    names = ("one", "many", "cpu_one", "cpu_many", "alone", "long", "late", "stream", "streams")
    figures: dict[str, list[float]] = {name: [] for name in names}
    decisions_a_second(address, bodies, 4, 0.5)
    stream_chats(address, model, prompts[:2], 8)
    for _ in range(rounds):
        for name, clients in (("one", 1), ("many", CLIENTS)):
            rate, cpu = score_round(address, pid, bodies, clients, seconds)
            figures[name].append(rate)
            figures[f"cpu_{name}"].append(cpu)
    for _ in range(rounds):
        figures["alone"] += [ask_short(address, model, prompts[-1]) for _ in range(5)]
        long, late = ask_late(address, model, prompts, 5)
        figures["long"] += long
        figures["late"] += late
    for _ in range(rounds):
        figures["stream"].append(LONG_TOKENS / stream_chats(address, model, prompts[:1], LONG_TOKENS))
        figures["streams"].append(STREAMS * LONG_TOKENS / stream_chats(address, model, prompts, LONG_TOKENS))
    results.put(figures)


def make_store(root: Path, task: Task, shape: str) -> str:
    """The digest of a base with random weights: speed depends on the shape alone."""
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch) / "base"
        if shape == TINY:
            texts = [row["prompt"] for row in task.labelled(400, seed=0)]
            tokenizer = build_tokenizer(texts, task.options, 2000)
            torch.manual_seed(0)
            save(Loaded(build_tiny(TinyShape(), tokenizer).eval(), tokenizer), base)
        else:
            make_base(base, SHAPES[shape], [task])
        return put(root, base, "model")


def report_on(figures: dict[str, list[float]], report: Report) -> None:
    median = {name: statistics.median(found) for name, found in figures.items()}
    ratio = statistics.median(many / one for many, one in zip(figures["many"], figures["one"], strict=True))
    told = f"{ratio:.2f} ({median['many']:.0f} and {median['one']:.0f} decisions a second)"
    report.add(f"/score by {CLIENTS} clients, to one at a time", bound=">= 2", figure=told, passed=ratio >= 2)
    saved = median["cpu_one"] / median["cpu_many"]
    told = f"{saved:.2f} ({median['cpu_one']:.2f} and {median['cpu_many']:.2f} ms)"
    report.add("its CPU time a decision, one at a time to those", bound=">= 2", figure=told, passed=saved >= 2)
    share = median["late"] / median["long"]
    told = f"{share:.3f} ({1000 * median['late']:.0f} of {1000 * median['long']:.0f} ms)"
    what = f"{SHORT_TOKENS} tokens asked beside {LONG_CHATS} chats of {LONG_TOKENS}, to the length of those"
    report.add(what, bound="<= 0.2", figure=told, passed=bool(figures["late"]) and share <= 0.2)
    slower = median["late"] / median["alone"]
    told = f"{slower:.2f} ({1000 * median['late']:.0f} and {1000 * median['alone']:.0f} ms)"
    report.add("the same, to alone", bound=f"<= {LONG_CHATS + 1}", figure=told, passed=slower <= LONG_CHATS + 1)
    gain = median["streams"] / median["stream"]
    told = f"{gain:.2f} ({median['streams']:.0f} and {median['stream']:.0f} tokens a second)"
    report.add(f"tokens of {STREAMS} streams, to one", bound=">= 2", figure=told, passed=gain >= 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two short rounds instead of six")
    parser.add_argument("--shape", choices=(TINY, "half-billion"), default=TINY, help="of the model (default tiny)")
    options = parser.parse_args()
    quick = options.quick
    task = Task(10, 40)
    root = Path(tempfile.mkdtemp(prefix="reckoner-serving-"))
    report = Report("serving_engine")
    try:
        model = make_store(root, task, options.shape)
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        with running_model_server(root, TOKEN) as address:
            [server] = [
                child for child in psutil.Process().children() if "training.engine.server" in " ".join(child.cmdline())
            ]
            client = context.Process(target=measure, args=(address, server.pid, model, task, quick, results))
            client.start()
            figures = results.get(timeout=900)
            client.join()
        report_on(figures, report)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
