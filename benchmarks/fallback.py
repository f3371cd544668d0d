"""F9: a model server is killed, and then stopped, under traffic; how long callers wait, and what is recorded.

    python -m benchmarks.fallback [--rounds 5] [--quick]

Two of llama.cpp's own servers are backends of a real instance. Threads ask for decisions over HTTP without a pause
while the first server is killed and started again, then stopped by SIGSTOP and let go on, a number of times: without
an experiment (the version under the alias `fallback` answers) and within one (the control answers for the treatment).
It goes away again once it has answered for two seconds.
Prints a row per point and one JSON object as the last line.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from tools.admin import Admin
from tools.instance import ROOT, Instance
from tools.llama_server import LlamaServer
from tools.report import Report

OPTIONS = ["finance", "travel", "health"]
WORDS = ["invoice", "refund", "tax", "flight", "hotel", "visa", "nurse", "clinic", "fever"]
THREADS, UP_SECONDS, AWAY_SECONDS = 4, 2.0, 3.0
BOUND_SECONDS = 2.0
MAKE = """
import sys
from training.engine.models.loading import build_tiny, build_tokenizer
from training.engine.spec.run_spec import TinyShape
folder, *words = sys.argv[1:]
tokenizer = build_tokenizer(words * 50, [], 400)
build_tiny(TinyShape(vocabulary=400, hidden=64), tokenizer).save_pretrained(folder)
tokenizer.save_pretrained(folder)
"""
_ENDS = """
SELECT count(*), count(*) FILTER (WHERE c.state <> 'answered'), count(*) FILTER (WHERE c.served_id <> c.assigned_id),
       count(*) FILTER (WHERE c.served_id <> d.model_version_id),
       count(*) FILTER (WHERE c.served_id <> c.assigned_id AND c.fallback = '')
  FROM models_registry_call c LEFT JOIN decisions_decision d ON d.id = c.id
"""


@dataclass
class Traffic:
    """What callers met: seconds of each answer, those by another version than was assigned, and every other status."""

    url: str
    token: str
    seconds: list[float] = field(default_factory=list)
    stood_in: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _numbers: Any = field(default_factory=itertools.count)

    def __enter__(self) -> Traffic:
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(THREADS)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def wait_until_nobody_stands_in(self) -> None:
        """Raises TimeoutError after two minutes."""
        gives_up = time.monotonic() + 120
        while time.monotonic() < gives_up:
            before, answered = len(self.stood_in), len(self.seconds)
            time.sleep(UP_SECONDS)
            if len(self.stood_in) == before and len(self.seconds) > answered:
                return
        raise TimeoutError("the first server did not come back to answer")

    def _ask(self) -> None:
        with httpx.Client(headers={"Authorization": f"Bearer {self.token}"}, timeout=30) as client:
            while not self._stop.is_set():
                number = next(self._numbers)
                item = {"state": {"text": f"{WORDS[number % len(WORDS)]} {number}"}, "unit": f"person-{number}"}
                began = time.monotonic()
                try:
                    answer = client.post(f"{self.url}/api/v1/agents/filer/decide", json=item)
                except httpx.HTTPError as error:
                    self.failed.append(type(error).__name__)
                    continue
                took = time.monotonic() - began
                if not answer.is_success:
                    self.failed.append(f"{answer.status_code} {answer.text[:200]}")
                    continue
                self.seconds.append(took)
                if answer.json()["fallback"]:
                    self.stood_in.append(took)


class Servers:
    """The first one goes away and comes back at its address; the second one stays."""

    def __init__(self, model: Path) -> None:
        self.model = model
        self.first, self.second = LlamaServer(model, "first"), LlamaServer(model, "second")

    def kill(self) -> None:
        port = urlsplit(self.first.origin).port
        assert port is not None
        self.first.stop()
        time.sleep(AWAY_SECONDS)
        self.first = LlamaServer(self.model, "first", port)

    def suspend(self) -> None:
        os.kill(self.first.process.pid, signal.SIGSTOP)
        time.sleep(AWAY_SECONDS)
        os.kill(self.first.process.pid, signal.SIGCONT)

    def stop(self) -> None:
        self.first.stop()
        self.second.stop()


def set_up(admin: Admin, servers: Servers) -> dict[str, Any]:
    """An agent, two backends, and a version on each: the first is the champion, the second stands in."""

    def post(path: str, **body: Any) -> Any:
        return admin.call("POST", path, body)

    post("/agents", slug="filer", name="Filer", prompt_template="{{ text }}", options=OPTIONS)
    model = admin.call("GET", "/models")["results"][0]["name"]
    versions = {}
    for name, server in (("first", servers.first), ("second", servers.second)):
        backend = post("/backends", name=name, url=server.url, capabilities=["json_schema"], retries=0)
        versions[name] = post("/remote-versions", model=model, remote_name=name, backend=backend["id"])
    post(f"/versions/{versions['first']['id']}/promote", reason="it is the only one")
    post(f"/versions/{versions['second']['id']}/aliases", alias="fallback")
    return versions


def measure(report: Report, instance: Instance, servers: Servers, token: str, what: str, rounds: int) -> None:
    for how, go_away in (("killed", servers.kill), ("stopped", servers.suspend)):
        with Traffic(instance.url, token) as warm:  # what a process asks for the first time takes longer
            warm.wait_until_nobody_stands_in()
        before = instance.query(_ENDS)[0]
        with Traffic(instance.url, token) as traffic:
            for _ in range(rounds):
                traffic.wait_until_nobody_stands_in()
                go_away()
            traffic.wait_until_nobody_stands_in()
        asked, unanswered, stood_in, differ, silent = (
            now - then for now, then in zip(instance.query(_ENDS)[0], before, strict=True)
        )
        report.add(
            f"{what}, server {how} {rounds} times: answers other than 2xx",
            bound="0",
            figure=f"{len(traffic.failed)} of {len(traffic.seconds) + len(traffic.failed)}"
            + (f": {traffic.failed[:3]}" if traffic.failed else ""),
            passed=not traffic.failed and bool(traffic.seconds),
        )
        slowest = max(traffic.seconds, default=0.0)
        report.add(
            "  the slowest answer, s",
            bound=f"<= {BOUND_SECONDS:g}",
            figure=f"{slowest:.2f} (stood in: {len(traffic.stood_in)} answers, slowest "
            f"{max(traffic.stood_in, default=0.0):.2f})",
            passed=slowest <= BOUND_SECONDS and bool(traffic.stood_in),
        )
        report.add(
            "  recorded as served ≠ assigned, with the reason, and all calls answered",
            bound="each",
            figure=f"{stood_in} of {len(traffic.stood_in)}; calls {asked}, unanswered {unanswered}, decisions of "
            f"another version than served {differ}, without a reason {silent}",
            passed=0 < stood_in == len(traffic.stood_in) and not unanswered and not differ and not silent,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="of each way to go away")
    parser.add_argument("--quick", action="store_true", help="one round")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    report = Report("fallback")
    from training.engine.export.gguf import write_gguf

    with tempfile.TemporaryDirectory(prefix="reckoner-fallback-") as folder:
        place = Path(folder)
        subprocess.run([sys.executable, "-c", MAKE, str(place / "model"), *WORDS, *OPTIONS], cwd=ROOT, check=True)
        write_gguf(place / "model", place / "model.gguf", "F16")
        servers = Servers(place / "model.gguf")
        instance = Instance(
            place / "instance",
            RECKONER_MODEL_SERVER_URL="http://127.0.0.1:9",
            RECKONER_KEY_REQUESTS_A_MINUTE="0",
            RECKONER_BACKEND_URLS=f"{servers.first.origin},{servers.second.origin}",
        )
        try:
            instance.start("--no-demo")
            admin = Admin(instance)
            versions = set_up(admin, servers)
            measure(report, instance, servers, admin.key, "without an experiment", rounds)
            # The champion is on the server that stays; the treatment on the one that goes away.
            first, second = versions["first"]["id"], versions["second"]["id"]
            admin.call("POST", f"/versions/{second}/promote", {"reason": "it stays"})
            # By its own rule it would roll back a treatment whose server keeps going away, and nobody would stand in.
            lenient = {"max_excess_failures": 1.0, "guardrails": []}
            plan = {"treatment": first, "reason": "to be tried", "treatment_share": 0.5, "min_seconds": 86_400}
            admin.call("POST", "/experiments", plan | lenient)
            measure(report, instance, servers, admin.key, "within an experiment", rounds)
        finally:
            instance.stop()
            servers.stop()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
