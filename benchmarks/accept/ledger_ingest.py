"""Recording decisions on a real instance while its processes are killed, and thousands of made-up requests.

`python -m benchmarks.accept.ledger_ingest [--quick]` runs it alone; each function adds its rows to a Report, for a
larger part. What was acknowledged must be stored, once: `Senders` keep count from outside, and repeat what got no
answer.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uuid_utils.compat

from benchmarks.accept.instance import ROOT, Instance
from benchmarks.accept.report import Report, log

OPTIONS = ["finance", "travel", "health"]
WEB = ("granian", "project.wsgi")
POSTGRES = ("bin/postgres", "-D")
MAKE_KNOWN = """
import json
from benchmarks.accept.generated import make_known
from decisions.models import Agent
print(json.dumps(make_known(Agent.objects.get(slug="filer"))))
"""


def start_instance(var: Path) -> Instance:
    """Databases, web, workers and beat, without demo and model server."""
    # Nobody asks a model here: an address that is given keeps `up` from starting a server.
    instance = Instance(var, RECKONER_MODEL_SERVER_URL="http://127.0.0.1:9", RECKONER_KEY_REQUESTS_A_MINUTE="0")
    instance.start("--no-demo")
    return instance


def make_agent(instance: Instance, slug: str = "filer") -> str:
    """An agent over the API; the token of an admin's key."""
    made = json.loads(instance.manage("create_key", "accept", "--scope", "admin", "--json").stdout)
    fields = {"slug": slug, "name": slug, "prompt_template": "{{ text }}", "options": OPTIONS}
    request = urllib.request.Request(
        f"{instance.url}/api/v1/agents",
        json.dumps(fields).encode(),
        {"Authorization": f"Bearer {made['key']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 201
    return str(made["key"])


class Senders:
    """Threads that record decisions until they are told to stop, each one until it is acknowledged.

    `external_id` names a decision for us. A third have ids of their own, a third go under an Idempotency-Key, a third
    come in lists of ten with ids. `refused` holds answers that a repeat cannot explain.
    """

    def __init__(self, url: str, token: str, *, threads: int = 4, a_second: float = 150.0) -> None:
        self.acknowledged: set[str] = set()
        self.refused: list[tuple[int, bytes]] = []
        self.repeated = 0
        self._address = urlsplit(url)
        self._token = token
        self._pause = threads / a_second
        self._stop = threading.Event()
        self._numbers = itertools.count()
        self.run = uuid.uuid4().hex[:8]
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]

    def __enter__(self) -> Senders:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Waits until what was begun is acknowledged."""
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), "a decision was not acknowledged within two minutes"

    def _run(self) -> None:
        connection = self._connect()
        while not self._stop.is_set():
            began = time.monotonic()
            number = next(self._numbers)
            names = [f"{self.run}-{number}.{place}" for place in range(10 if number % 3 == 0 else 1)]
            items = [self._item(name, with_id=number % 3 != 1) for name in names]
            body = json.dumps(items if number % 3 == 0 else items[0]).encode()
            key = f"{self.run}-{number}" if number % 3 == 1 else None
            while True:
                status, answer = self._send(connection, body, key)
                if status == 201:
                    self.acknowledged.update(names)
                    break
                if status not in (0, 502, 503) and not (status == 409 and b"request_in_flight" in answer):
                    self.refused.append((status, answer[:300]))
                    break
                self.repeated += 1
                connection.close()
                connection = self._connect()
                time.sleep(0.05)
            time.sleep(max(0.0, self._pause - (time.monotonic() - began)))
        connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._address.hostname or "", self._address.port, timeout=10)

    def _send(self, connection: http.client.HTTPConnection, body: bytes, key: str | None) -> tuple[int, bytes]:
        """Status 0: no answer came."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        try:
            connection.request("POST", "/api/v1/decisions", body, headers)
            with connection.getresponse() as answer:
                return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, b""

    @staticmethod
    def _item(name: str, *, with_id: bool) -> dict[str, Any]:
        item = {"agent": "filer", "state": {"text": name}, "action": "travel", "policy_name": "outside"}
        own = {"id": str(uuid_utils.compat.uuid7())} if with_id else {}
        return item | own | {"external_id": name}


def stored(instance: Instance, senders: Senders) -> Counter[str]:
    """How often each of their names is in the ledger."""
    counted = "SELECT external_id, count(*) FROM decisions_decision WHERE external_id LIKE %s GROUP BY 1"
    return Counter(dict(instance.query(counted, f"{senders.run}-%")))


def wait_until_ready(instance: Instance, seconds: float = 120.0) -> float:
    """Seconds until /readyz answers 200."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        try:
            with urllib.request.urlopen(f"{instance.url}/readyz", timeout=2) as answer:
                if answer.status == 200:
                    return time.monotonic() - began
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(f"not ready within {seconds} s")


def wait_until_back(instance: Instance, words: tuple[str, ...], killed: set[int], seconds: float = 120.0) -> float:
    """Seconds until the instance is ready and what was killed runs again: sessions of a killed postmaster answer for a
    moment longer, and so would /readyz."""
    began = time.monotonic()
    while not {process.pid for process in instance.find(*words)} - killed:
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"nothing of {words} was started again within {seconds} s")
        time.sleep(0.05)
    wait_until_ready(instance, seconds)
    return time.monotonic() - began


def kill_while_sending(
    instance: Instance, token: str, words: tuple[str, ...], times: int, *, pause: float = 0.4
) -> tuple[Senders, list[float]]:
    """Kills, waits until the instance is ready again, and once more; the senders, and the seconds of each wait."""
    waits = []
    with Senders(instance.url, token) as senders:
        for number in range(times):
            time.sleep(pause)
            found = {process.pid for process in instance.find(*words)}
            assert instance.kill(*words) > 0, f"nothing to kill: {words}"
            waits.append(wait_until_back(instance, words, found))
            log(f"{number + 1} of {times}: killed {len(found)}, ready after {waits[-1]:.1f} s")
    return senders, waits


def kill_rows(report: Report, instance: Instance, token: str, *, web: int = 50, postgres: int = 10) -> None:
    """F1 and F2: kill -9 of the web processes and of PostgreSQL while decisions are recorded at 150 a second."""
    for name, words, times in (("web", WEB, web), ("PostgreSQL", POSTGRES, postgres)):
        senders, waits = kill_while_sending(instance, token, words, times)
        there = stored(instance, senders)
        lost = senders.acknowledged - set(there)
        doubled = [one for one, count in there.items() if count > 1]
        what = f"kill -9 of {name}, {times} times"
        figure = f"{len(senders.acknowledged)} acknowledged, {senders.repeated} repeated"
        report.add(
            f"{what}: acknowledged and not stored", bound="0", figure=f"{len(lost)} of {figure}", passed=not lost
        )
        report.add(f"{what}: stored twice", bound="0", figure=len(doubled), passed=not doubled)
        report.add(f"{what}: refused", bound="0", figure=senders.refused[:2] or 0, passed=not senders.refused)
        slowest = max(waits)
        report.add(f"{what}: ready again, slowest", bound="<= 15 s", figure=f"{slowest:.1f} s", passed=slowest <= 15)


def generated_rows(report: Report, instance: Instance, token: str, *, requests: int = 5000) -> None:
    """F15: requests made up from the OpenAPI document."""
    from benchmarks.accept.generated import is_fault, send_generated

    address = urlsplit(instance.url)
    accept = {"Accept": "application/vnd.oai.openapi+json"}
    with urllib.request.urlopen(urllib.request.Request(f"{instance.url}/api/v1/schema", headers=accept)) as answer:
        document = json.load(answer)
    operations = sum(len(path) for path in document["paths"].values())
    made = instance.manage("shell", "-v", "0", "-c", MAKE_KNOWN)
    assert made.returncode == 0, made.stderr[-2000:]
    known = json.loads(made.stdout)
    statuses: Counter[int] = Counter()
    failed: list[tuple[str, str, str, int]] = []
    unstated: list[tuple[str, str, str, int]] = []
    slowest = (0.0, "")

    def send(request: Any, stated: frozenset[int]) -> None:
        nonlocal slowest
        headers = {**request.headers, "Authorization": f"Bearer {token}", "Connection": "close"}
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
        began = time.monotonic()
        try:
            connection.request(request.method, request.path_url, request.body, headers)
            status = connection.getresponse().status
        except (ValueError, UnicodeError):
            return  # a header or path that no client can put on the wire
        finally:
            connection.close()
        slowest = max(slowest, (time.monotonic() - began, f"{request.method} {request.path_url[:100]}"))
        statuses[status] += 1
        if status not in stated:
            unstated.append((request.method, request.path_url, str(request.body)[:300], status))
        if is_fault(request, status):
            failed.append((request.method, request.path_url, str(request.body)[:300], status))

    for seed in itertools.count():
        send_generated(document, send, each=max(1, requests // (2 * operations)), known=known, seed=seed)
        if statuses.total() >= requests or seed >= 5:
            break
    told = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
    report.add("generated requests", bound=f">= {requests}", figure=told, passed=statuses.total() >= requests)
    report.add("generated requests: server errors", bound="0", figure=failed[:3] or 0, passed=not failed)
    report.add(
        "generated requests: statuses that the document does not state",
        bound="0",
        figure=unstated[:3] or 0,
        passed=not unstated,
    )
    report.add(
        "generated requests: slowest", bound="< 1 s", figure=f"{slowest[0]:.2f} s, {slowest[1]}", passed=slowest[0] < 1
    )


def speed_rows(report: Report, *, quick: bool = False) -> None:
    """benchmarks.ingest as it is, a row a point."""
    command = [sys.executable, "-m", "benchmarks.ingest", *(["--quick"] if quick else [])]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = ran.stdout.splitlines()
    for line in lines[:-1]:
        words = line.split()
        if words and words[-1] in {"pass", "FAIL"}:
            what, sense, bound, figure = " ".join(words[:-4]), *words[-4:-1]
            report.add(what, bound=f"{sense} {bound}", figure=figure, passed=words[-1] == "pass")
    log(lines[-1] if lines else ran.stderr[-2000:])


def run_on_instance(work: Callable[[Instance, str], None]) -> None:
    """A fresh instance with an agent and a key, removed afterwards."""
    var = Path(tempfile.mkdtemp(prefix="reckoner-ledger-"))
    instance = start_instance(var)
    try:
        work(instance, make_agent(instance))
    finally:
        instance.stop()
        shutil.rmtree(var, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the kills and requests")
    quick = parser.parse_args().quick
    report = Report("ledger_ingest")

    def work(instance: Instance, token: str) -> None:
        kill_rows(report, instance, token, web=5 if quick else 50, postgres=1 if quick else 10)
        generated_rows(report, instance, token, requests=500 if quick else 5000)

    run_on_instance(work)
    speed_rows(report, quick=quick)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
