"""The calls of a small workspace beside a large one that is busy, on one instance.

    python -m benchmarks.noisy_neighbour [--quick] [--rows N]

`benchmarks.large_ledger` fills the instance: 10 million decisions with feedback, rewards and episodes (100,000 with
--quick), nine tenths of them in the large workspace. The small one has what is recorded here. Its calls come at a
steady rate (a decision, its list of decisions as page and by the API, a chat), alone and, in turns, while the large one
records lists of 200 decisions three times a second, looks at two pages a second, and exports its decisions without a
pause. Bounded is the ratio of the 99th percentiles.

Prints a row per point and one JSON object as the last line; exits 1 when a point misses its bound.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import httpx

from benchmarks.ingest import make_item
from benchmarks.large_ledger import SLUG
from benchmarks.serving import start, stub_server
from benchmarks.unread_bodies import legitimate_calls
from tools.instance import Instance
from tools.report import Report, log
from tools.steady import FAULTS, Ask, ask_in_turns

ROWS, QUICK_ROWS = 10_000_000, 100_000
LIST, LISTS_A_SECOND, PAGES_A_SECOND = 200, 3.0, 2.0
A_SECOND = 4.0
"""Calls of each kind of the small one: few enough that a busy machine keeps up with them while it is alone."""
FILL = """
from django.utils import timezone
from benchmarks.large_ledger import fill
fill({rows}, timezone.now())
"""
LOG_IN = """
from django.conf import settings
from django.test import Client
from tools.factories import MembershipFactory
from workspaces.models import Workspace
client = Client()
workspace = Workspace.objects.get(slug="{slug}")
person = MembershipFactory(workspace=workspace, user__email="person@{slug}.example")
client.force_login(person.user)
print(client.cookies[settings.SESSION_COOKIE_NAME].value)
"""


def run_inside(instance: Instance, code: str) -> str:
    """The last line that it prints."""
    done = instance.manage("shell", "-c", code)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip().rpartition("\n")[2]


def cookie_of(instance: Instance, slug: str) -> str:
    """The session of a person who is logged in at the workspace."""
    return run_inside(instance, LOG_IN.format(slug=slug))


def person_of(url: str, slug: str, cookie: str) -> httpx.Client:
    """Logged in at the pages of the workspace."""
    return httpx.Client(
        base_url=f"{url}/w/{slug}", cookies={"sessionid": cookie}, trust_env=False, verify=False, timeout=60
    )


def program_of(url: str, token: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=f"{url}/api/v1", headers=headers, trust_env=False, verify=False, timeout=120)


def look(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:200]}"


class Busy:
    """The large workspace at work, in a process of its own: threads would hold the lock of the interpreter that times
    the small one's calls. `done` counts over all spells."""

    def __init__(self, instance: Instance, token: str) -> None:
        self._spawning = multiprocessing.get_context("spawn")
        self._arguments = (instance.url, token, cookie_of(instance, SLUG))
        self.done: Counter[str] = Counter()
        self.failed: list[str] = []

    def __enter__(self) -> Busy:
        self._stop, self._reports = self._spawning.Event(), self._spawning.Queue()
        started = self._spawning.Event()
        arguments = (*self._arguments, started, self._stop, self._reports)
        self._process = self._spawning.Process(target=keep_busy, args=arguments)
        self._process.start()
        assert started.wait(60), "the large workspace's callers did not start"
        time.sleep(1)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        done, failed = self._reports.get()
        self._process.join()
        self.done.update(done)
        self.failed += failed


class Work:
    """The large workspace's calls. `run` repeats one kind of them at a steady rate; each kind has a thread."""

    def __init__(self, url: str, token: str, cookie: str, stop: Event) -> None:
        self._program, self._exporter = program_of(url, token), program_of(url, token)
        self._person, self._stop = person_of(url, SLUG, cookie), stop
        self._rng = random.Random(1)
        self._pages = itertools.cycle(
            ["/decisions/", "/decisions/?agent=filer&verdict=confirmed", "/decisions/?q=invoice"]
        )
        self.done: Counter[str] = Counter()
        self.failed: list[str] = []

    def run(self, work: Callable[[], None], a_second: float) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                work()
            except FAULTS as error:
                self.failed.append(f"{type(error).__name__}: {error}"[:300])
                self._stop.wait(0.1)
            if a_second:
                self._stop.wait(max(0.0, began + 1 / a_second - time.monotonic()))

    def record(self) -> None:
        items = [make_item(self._rng, number) | {"action": "travel"} for number in range(LIST)]
        answer = self._program.post(
            "/decisions", content=json.dumps(items), headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 201, answer.text[:300]
        self.done["lists"] += 1

    def look(self) -> None:
        look(self._person, next(self._pages))
        self.done["pages"] += 1

    def export(self) -> None:
        with self._exporter.stream("GET", "/decisions/export") as answer:
            assert answer.status_code == 200
            for piece in answer.iter_bytes():
                self.done["exports, kB"] += len(piece) // 1000
                if self._stop.is_set():
                    return


def keep_busy(url: str, token: str, cookie: str, started: Event, stop: Event, reports: Queue[Any]) -> None:
    """Runs in the process of `Busy` until `stop`; then puts what was done, and what failed, into `reports`."""
    work = Work(url, token, cookie, stop)
    kinds = ((work.record, LISTS_A_SECOND), (work.look, PAGES_A_SECOND), (work.export, 0.0))
    threads = [threading.Thread(target=work.run, args=kind) for kind in kinds]
    for thread in threads:
        thread.start()
    started.set()
    for thread in threads:
        thread.join()
    reports.put((dict(work.done), work.failed))


def small_calls(instance: Instance, token: str, slug: str) -> dict[str, Ask]:
    calls = legitimate_calls(instance, token)
    person, program = person_of(instance.url, slug, cookie_of(instance, slug)), program_of(instance.url, token)
    return {
        "a small workspace's decisions": calls["decisions"],
        "its pages": lambda: look(person, "/decisions/"),
        "its lists": lambda: look(program, "/decisions?limit=50"),
        "its chats": calls["chats"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS:,} decisions, four spells of 15 s")
    parser.add_argument("--rows", type=int, help=f"decisions (default {ROWS:,})")
    options = parser.parse_args()
    rows = options.rows or (QUICK_ROWS if options.quick else ROWS)
    report = Report("noisy_neighbour")
    with tempfile.TemporaryDirectory(prefix="reckoner-neighbour-") as folder, stub_server() as stub:
        instance, token = start(Path(folder) / "var", stub)
        try:
            [[slug]] = instance.query("SELECT slug FROM workspaces_workspace")
            calls = small_calls(instance, token, slug)
            began = time.monotonic()
            run_inside(instance, FILL.format(rows=rows))
            [[size]] = instance.query("SELECT pg_database_size(current_database())")
            log(f"{rows:,} decisions in {time.monotonic() - began:.0f} s, {size / 1e9:.1f} GB")
            busy = Busy(instance, instance.make_key("busy", workspace=SLUG))
            spells, seconds = (4, 15) if options.quick else (8, 30)
            found = ask_in_turns(calls, lambda: busy, spells=spells, seconds=seconds, a_second=A_SECOND)
            report.add(
                "what the large workspace did meanwhile", bound="each", passed=len(busy.done) == 3 and not busy.failed,
                figure=f"{dict(busy.done)}; failed {busy.failed[:2]}",
            )  # fmt: skip
            found.report(report, f"a busy one of {rows:,}")
        finally:
            instance.stop()
    return report.finish(rows=rows, load=os.getloadavg()[0])


if __name__ == "__main__":
    sys.exit(main())
