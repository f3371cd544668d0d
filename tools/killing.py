"""Recording decisions on a real instance while its processes are killed: what was acknowledged must be stored, once.

`Senders` keep count from outside, and repeat what got no answer.
"""

from __future__ import annotations

import http.client
import itertools
import json
import shutil
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

from tools.instance import Instance
from tools.report import log

OPTIONS = ["finance", "travel", "health"]
WEB = ("gunicorn", "project.wsgi")
POSTGRES = ("bin/postgres", "-D")


def start_instance(var: Path) -> Instance:
    """Databases, web, workers and beat, without demo and model server."""
    # Nobody asks a model here: an address that is given keeps `up` from starting a server.
    instance = Instance(var, RECKONER_MODEL_SERVER_URL="http://127.0.0.1:9", RECKONER_KEY_REQUESTS_A_MINUTE="0")
    instance.start("--no-demo")
    return instance


def make_agent(instance: Instance, slug: str = "filer") -> str:
    """An agent over the API; the token of an admin's key."""
    key = instance.make_key("sender")
    fields = {"slug": slug, "name": slug, "prompt_template": "{{ text }}", "options": OPTIONS}
    request = urllib.request.Request(
        f"{instance.url}/api/v1/agents",
        json.dumps(fields).encode(),
        {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 201
    return key


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
        time.sleep(0.2)  # a look goes through every process of the machine
    wait_until_ready(instance, seconds)
    return time.monotonic() - began


def kill_while_sending(
    instance: Instance, token: str, words: tuple[str, ...], times: int, *, pause: float = 0.4, a_second: float = 150.0
) -> tuple[Senders, list[float]]:
    """Kills, waits until the instance is ready again, and once more; the senders, and the seconds of each wait."""
    waits = []
    with Senders(instance.url, token, a_second=a_second) as senders:
        for number in range(times):
            time.sleep(pause)
            found = {process.pid for process in instance.find(*words)}
            assert instance.kill(*words) > 0, f"nothing to kill: {words}"
            waits.append(wait_until_back(instance, words, found))
            log(f"{number + 1} of {times}: killed {len(found)}, ready after {waits[-1]:.1f} s")
    return senders, waits


def run_on_instance(work: Callable[[Instance, str], None], prepare: Callable[[Path], None] = lambda _: None) -> None:
    """A fresh instance with an agent and a key, removed afterwards; `prepare` gets its folder before it starts."""
    var = Path(tempfile.mkdtemp(prefix="reckoner-ledger-"))
    prepare(var)
    instance = start_instance(var)
    try:
        work(instance, make_agent(instance))
    finally:
        instance.stop()
        shutil.rmtree(var, ignore_errors=True)
