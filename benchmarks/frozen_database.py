"""What callers of web and gateway meet while PostgreSQL is frozen (SIGSTOP to all of its processes).

    python -m benchmarks.frozen_database [--seconds 42] [--quick] [--root FOLDER]

An instance of its own (`manage.py up` in a temporary folder). At the beginning 64 requests with a key come at once,
then one of each kind without a pause: a page, the API, the gateway's models and chats, /readyz; beside them /livez of
both, over a new connection each. What is bounded is how long an answer takes, and that everything answers again after
SIGCONT. `--root`: another checkout, whose instance is measured, with the libraries of this one. Prints a row per point
and one JSON object as the last line; exits 1 when a point misses its bound.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tools.instance import ROOT, Instance
from tools.ports import free_port
from tools.report import Report

AT_ONCE, AFTER_SECONDS = 64, 30.0
BOUND_SECONDS, BOUND_LIVEZ = 5.0, 1.0
CHAT = {"model": "helper", "messages": [{"role": "user", "content": "hello"}]}
Answer = tuple[int, float]
"""Status (0: none within the time) and seconds."""


class Callers:
    def __init__(self, instance: Instance, gateway: str) -> None:
        key = instance.make_key("frozen")
        self.client = httpx.Client(
            trust_env=False, verify=False, timeout=120, limits=httpx.Limits(max_connections=2 * AT_ONCE),
            headers={"Authorization": f"Bearer {key}"},
        )  # fmt: skip
        self.probes = [f"{instance.url}/livez", f"{gateway}/livez"]
        self.asked = [
            ("GET", f"{instance.url}/log-in"),
            ("GET", f"{instance.url}/api/v1/agents"),
            ("GET", f"{instance.url}/readyz"),
            ("GET", f"{gateway}/v1/models"),
            ("POST", f"{gateway}/v1/chat/completions"),
        ]

    def ask(self, one: tuple[str, str]) -> Answer:
        method, url = one
        began = time.monotonic()
        try:
            status = self.client.request(method, url, json=CHAT if method == "POST" else None).status_code
        except httpx.TransportError:
            status = 0
        return status, time.monotonic() - began

    def probe(self, seconds: float) -> list[Answer]:
        answers, until = [], time.monotonic() + seconds
        while time.monotonic() < until:
            for url in self.probes:
                began = time.monotonic()
                try:
                    status = httpx.get(url, trust_env=False, verify=False, timeout=60).status_code
                except httpx.TransportError:
                    status = 0
                answers.append((status, time.monotonic() - began))
            time.sleep(0.1)
        return answers


def measure(report: Report, instance: Instance, callers: Callers, seconds: float) -> None:
    server = instance.find("postgres", "-D")
    server += [child for process in server for child in process.children(recursive=True)]
    with ThreadPoolExecutor(AT_ONCE + 1) as threads:
        for process in server:
            process.send_signal(signal.SIGSTOP)
        try:
            until = time.monotonic() + seconds
            probes = threads.submit(callers.probe, seconds)
            first = list(threads.map(callers.ask, (callers.asked * AT_ONCE)[:AT_ONCE]))
            later: list[Answer] = []
            while time.monotonic() < until:
                later += [callers.ask(one) for one in callers.asked]
                time.sleep(0.1)
        finally:
            for process in server:
                process.send_signal(signal.SIGCONT)
    resumed = time.monotonic()
    report.bound(f"the slowest of {AT_ONCE} at once, s", max(took for _, took in first), "<=", BOUND_SECONDS)
    report.bound(f"the slowest of {len(later)} later ones, s", max(took for _, took in later), "<=", BOUND_SECONDS)
    statuses = sorted({status for status, _ in first + later})
    # A page that asks the database for nothing, such as /log-in, may be there.
    report.add("their statuses", bound="503 (or 200)", figure=statuses, passed={503} <= set(statuses) <= {200, 503})
    lives = probes.result()
    report.bound(f"the slowest of {len(lives)} /livez, s", max(took for _, took in lives), "<=", BOUND_LIVEZ)
    report.add("their statuses", bound="200", figure=sorted({status for status, _ in lives}),
               passed={status for status, _ in lives} == {200})  # fmt: skip
    while any(callers.ask(one)[0] in (0, 503) for one in callers.asked):
        if time.monotonic() - resumed > AFTER_SECONDS:
            break
        time.sleep(0.1)
    report.bound("all answer again after, s", time.monotonic() - resumed, "<=", BOUND_SECONDS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=42.0, help="how long it is frozen (default 42)")
    parser.add_argument("--quick", action="store_true", help="8 seconds")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout whose instance is measured")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="reckoner-frozen-"))
    report = Report("frozen_database")
    port = free_port()
    instance = Instance(folder / "var", root=options.root, RECKONER_KEY_REQUESTS_A_MINUTE="0")
    try:
        instance.start("--port", str(free_port()), "--gateway-port", str(port))
        callers = Callers(instance, f"http://127.0.0.1:{port}")
        measure(report, instance, callers, 8.0 if options.quick else options.seconds)
    finally:
        instance.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
