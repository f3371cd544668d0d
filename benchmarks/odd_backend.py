"""A backend that answers wrongly: what callers get, what the answer costs, and what others notice of it.

    python -m benchmarks.odd_backend [--quick] [--beside] [--root FOLDER]

An instance of its own, with an agent for each wrong answer of `benchmarks.odd_server` (400 MB, a line of 150 MB, pieces
for ever, wrong shapes, counts of tokens that are none, nothing, …). Each is asked three times alone: a chat, whole and
as a stream, at the gateway, and `decide` at the web. Either an answer comes, or a refusal with 502 or 503 that names
the backend; where the whole answer is in what was sent, it must come and be recorded. Memory is what the processes of
web and gateway had at most during the call over what they had before. Then calls of others come at a steady rate,
beside two callers that go through the wrong answers again and again, and in turn beside two that get right answers from
the same server as often as they can: the machine is shared in both, so that the ratio is what wrong answers cost.
`--root`: another checkout, whose instance is measured, with the libraries of this one.

Prints a row per point and one JSON object as the last line; exits 1 when a point misses its bound.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.odd_server import ANSWERED, ODD, RIGHT, WORD, model_of
from benchmarks.serving import Service, server_process, start, stub_server
from benchmarks.unread_bodies import legitimate_calls
from tools.instance import ROOT, Instance
from tools.report import Report, log
from tools.steady import ask_in_turns, ask_side_by_side

SILENT_SECONDS, LONGEST_SECONDS = 3, 10
"""How long the backend may say nothing, and how long an answer may take."""
BOUND_MEGABYTES, BOUND_SECONDS, BOUND_STORED = 100, 20.0, 1 << 20
GIVE_UP_SECONDS = 60
CALLERS = 2
WAYS = ("whole", "stream", "decide")
ANSWERS, REFUSALS = (200, 201), (502, 503)


@dataclass(frozen=True)
class Reply:
    """`said`: the words of the answer, or of the refusal. Status 0: none came in time."""

    status: int
    said: str
    seconds: float
    refused: bool

    @property
    def is_right(self) -> bool:
        # A stream has its status before it breaks off.
        return self.status in (200, *REFUSALS) and bool(self.said) if self.refused else self.status in ANSWERS


class Callers:
    """Asks the agent of each wrong answer."""

    def __init__(self, instance: Instance, token: str) -> None:
        self.web, self.gateway = instance.url, instance.services()["GATEWAY_URL"]
        self.headers = {"Authorization": f"Bearer {token}"}

    def ask(self, name: str, way: str) -> Reply:
        began = time.monotonic()
        url, body = f"{self.gateway}/v1/chat/completions", self._chat(name, stream=way == "stream")
        if way == "decide":
            url, body = f"{self.web}/api/v1/agents/{model_of(name).lower()}/decide", {"state": {"input": "x"}}
        try:
            timeout = httpx.Timeout(GIVE_UP_SECONDS)
            with httpx.stream("POST", url, json=body, headers=self.headers, trust_env=False, timeout=timeout) as answer:
                content = b""
                for piece in answer.iter_bytes():
                    content += piece if len(content) < 1 << 22 else b""
                    assert time.monotonic() - began < GIVE_UP_SECONDS, "it does not end"
        except (httpx.HTTPError, AssertionError) as error:
            return Reply(0, f"{type(error).__name__}: {error}", time.monotonic() - began, True)
        refused, said = _read(answer.status_code, content.decode(errors="replace"))
        return Reply(answer.status_code, said, time.monotonic() - began, refused)

    @staticmethod
    def _chat(name: str, *, stream: bool) -> dict[str, Any]:
        model = model_of(name).lower()
        return {"model": model, "messages": [{"role": "user", "content": "x"}], "stream": stream}


def _read(status: int, content: str) -> tuple[bool, str]:
    """Returns whether the answer is a refusal, and its message."""
    for line in content.splitlines() or [""]:
        with contextlib.suppress(ValueError):
            told = json.loads(line.removeprefix("data:"))
            if isinstance(told, dict) and (error := told.get("error")):
                return True, str(error.get("message", error) if isinstance(error, dict) else error)
    return status not in ANSWERS, content


def set_up(instance: Instance, token: str, origin: str) -> None:
    service = Service(instance.url, token)
    fields = {"name": "odd", "url": f"{origin}/v1", "timeout_seconds": SILENT_SECONDS, "retries": 0}
    backend = service.post("backends", fields)
    for model in map(model_of, [*ODD, RIGHT]):
        slug = model.lower()
        agent = {"slug": slug, "name": slug, "prompt_template": "{{ input }}", "action_space": "text"}
        service.post("agents", agent)
        service.post("remote-versions", {"model": slug, "remote_name": model, "backend": backend["id"]})


def _resident(process: psutil.Process, field: str) -> int:
    """Kilobytes; 0 where it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1])
    return 0


@contextmanager
def memory_of(instance: Instance) -> Iterator[list[float]]:
    """Afterwards holds the megabytes by which the processes of web and gateway grew at most, added up. Linux alone."""
    processes = [*instance.find("gunicorn"), *instance.find("-m project.gateway")]
    before = {}
    for process in processes:
        with contextlib.suppress(OSError):
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # the peak begins anew
        before[process.pid] = _resident(process, "VmRSS")
    grown: list[float] = []
    yield grown
    grown.append(sum(max(0, _resident(process, "VmHWM") - before[process.pid]) for process in processes) / 1024)


def measure_alone(report: Report, instance: Instance, callers: Callers) -> None:
    most: dict[str, float] = {}
    slowest, wrong = 0.0, []
    lost = []
    callers.ask("usage -1", "whole")
    for name, way in itertools.product(ODD, WAYS):
        with memory_of(instance) as grown:
            reply = callers.ask(name, way)
        log(f"{name}, {way}: {reply.status} in {reply.seconds:.1f} s, {grown[0]:.0f} MB: {reply.said[:90]!r}")
        most[f"{name}, {way}"] = grown[0]
        slowest = max(slowest, reply.seconds)
        if not reply.is_right:
            wrong.append(f"{name}, {way}: {reply.status} {reply.said[:80]}")
        if name in ANSWERED and (reply.refused or WORD not in reply.said):
            lost.append(f"{name}, {way}")
    worst = max(most, key=lambda name: most[name])
    count = len(most)
    report.add(f"{count} wrong answers: neither an answer nor a 502 or 503 that says why", bound="0",
               figure=f"{len(wrong)}{': ' if wrong else ''}{'; '.join(wrong)[:300]}", passed=not wrong)  # fmt: skip
    report.add("answers lost for their counts or indexes", bound="0", figure=f"{len(lost)} {lost[:4]}", passed=not lost)
    report.bound("the slowest, s", slowest, "<=", BOUND_SECONDS)
    report.add("memory of web and gateway during one, at most", bound=f"<= {BOUND_MEGABYTES} MB",
               figure=f"{most[worst]:.0f} MB ({worst})", passed=most[worst] <= BOUND_MEGABYTES)  # fmt: skip
    [[stored]] = instance.query("SELECT max(octet_length(action::text)) FROM decisions_decision")
    report.add("the largest action that was stored", bound=f"<= {BOUND_STORED}", figure=stored or 0,
               passed=(stored or 0) <= BOUND_STORED)  # fmt: skip


class CallersBeside:
    """Callers that ask for these answers without a pause, each a process: threads would hold the lock of the
    interpreter that times the other calls."""

    def __init__(self, callers: Callers, names: list[str]) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._stop = spawning.Event()
        ways = list(itertools.product(names, WAYS))
        self._processes = [
            spawning.Process(target=_ask_again_and_again, args=(callers, ways[at:] + ways[:at], self._stop))
            for at in range(0, len(ways), -(-len(ways) // CALLERS))
        ]

    def __enter__(self) -> CallersBeside:
        for process in self._processes:
            process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for process in self._processes:
            process.join()


def _ask_again_and_again(callers: Callers, ways: list[tuple[str, str]], stop: Event) -> None:
    for name, way in itertools.cycle(ways):
        if stop.is_set():
            return
        callers.ask(name, way)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four spells of 10 s")
    parser.add_argument("--beside", action="store_true", help="only what others notice")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout whose instance is measured")
    options = parser.parse_args()
    report = Report("odd_backend")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="reckoner-odd-"))
        stub, odd = stack.enter_context(stub_server()), stack.enter_context(server_process("benchmarks.odd_server"))
        settings = {
            "RECKONER_BACKEND_URLS": f"{stub},{odd}",
            "RECKONER_LONGEST_ANSWER_SECONDS": str(LONGEST_SECONDS),
        }
        instance, token = start(Path(folder) / "var", stub, root=options.root, **settings)
        stack.callback(instance.stop)
        set_up(instance, token, odd)
        callers = Callers(instance, token)
        if not options.beside:
            measure_alone(report, instance, callers)
        asks = legitimate_calls(instance, token)
        seconds = 10 if options.quick else 20
        ask_side_by_side(asks, 5, 3)  # loads what is loaded once
        for kind, calls in ask_side_by_side(asks, 5, 2 * seconds).items():
            log(f"{kind} alone: p99 {calls.share(0.99):.1f} ms")
        wrong = [name for name in ODD if name not in ("silence", "for ever")]
        found = ask_in_turns(
            asks, lambda: CallersBeside(callers, wrong), undisturbed=lambda: CallersBeside(callers, [RIGHT]),
            spells=4 if options.quick else 8, seconds=seconds,
        )  # fmt: skip
        found.report(report, "wrong answers", than="beside right answers")
    return report.finish(load=os.getloadavg()[0])


if __name__ == "__main__":
    sys.exit(main())
