"""A PostgreSQL that is frozen, as by a machine that swaps or a disk that hangs: web and gateway go on answering."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from project.embedded.layout import PROJECT_ROOT, Layout
from project.embedded.postgres import Postgres, find_owner
from project.embedded.valkey import pick_port
from tests.project.embedded.waiting import wait_for
from tests.template_database import migrate_instance

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.xdist_group("embedded")]
LOOSE_SECONDS = 40.0
"""Without an end to their waits all of them wait for as long as it is frozen. docs/results.md has the seconds."""
PLAIN: dict[str, Any] = {"trust_env": False, "verify": False, "timeout": 90}
CHAT = {"model": "helper", "messages": [{"role": "user", "content": "hello"}]}


class Database:
    """A PostgreSQL of this test's own."""

    def __init__(self, layout: Layout) -> None:
        self.cluster = Postgres(layout.postgres, layout.locate_sockets("postgres"), durable=False)
        self.cluster.prepare()
        owner = find_owner()
        user: Any = owner[0] if owner else None
        self.process = subprocess.Popen(
            self.cluster.command(), cwd="/", user=user, group=user, extra_groups=[] if user else None,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.cluster.wait_until_ready()

    def send(self, number: int) -> None:
        server = psutil.Process(self.process.pid)
        for process in [server, *server.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        self.send(signal.SIGSTOP)
        try:
            yield
        finally:
            self.send(signal.SIGCONT)

    def stop(self) -> None:
        self.send(signal.SIGCONT)
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)


@pytest.fixture
def database(layout: Layout) -> Iterator[Database]:
    migrate_instance(layout.var)
    database = Database(layout)
    try:
        yield database
    finally:
        database.stop()


@pytest.fixture
def serve(database: Database, tmp_path: Path) -> Iterator[Callable[..., str]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: str, port: int) -> str:
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "project.settings", "RECKONER_VAR": str(tmp_path),
            "DATABASE_URL": database.cluster.url(),
        }  # fmt: skip
        log = tmp_path / f"{port}.log"
        with log.open("w") as out:
            started.append(
                subprocess.Popen([sys.executable, *command], cwd=PROJECT_ROOT, env=environment, stdout=out, stderr=out)
            )
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: answers(f"{url}/readyz") == 200)
        return url

    yield start
    for process in started:
        process.terminate()
        process.wait(60)


def answers(url: str) -> int | None:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(url, **PLAIN).status_code
    return None


def ask(method: str, url: str, **content: Any) -> tuple[int, float]:
    """Status and seconds."""
    began = time.monotonic()
    return httpx.request(method, url, **content, **PLAIN).status_code, time.monotonic() - began


def ask_at_once(asked: list[tuple[str, str]], *, chat: bool = False) -> list[tuple[int, float]]:
    content = {"json": CHAT, "headers": {"Authorization": "Bearer abc.def"}} if chat else {}
    with ThreadPoolExecutor(len(asked)) as threads:
        return list(threads.map(lambda one: ask(*one, **content), asked))


def test_web_and_gateway_answer_503_and_their_probes_always(
    serve: Callable[..., str], database: Database, tmp_path: Path
) -> None:
    ports = [pick_port(tmp_path / f"port{number}") for number in range(2)]
    gunicorn = ("-m", "gunicorn", "-c", "python:project.web.server", "project.wsgi:application")
    web = serve(*gunicorn, "--bind", f"127.0.0.1:{ports[0]}", "--workers", "1", "--threads", "2", port=ports[0])
    gateway = serve("-m", "project.gateway", "--port", str(ports[1]), port=ports[1])
    pages = [("GET", f"{web}/log-in"), ("GET", f"{web}/api/v1/agents"), ("GET", f"{web}/readyz")]
    keyed = {"headers": {"Authorization": "Bearer abc.def"}}
    assert [ask(*page, **keyed)[0] for page in pages] == [200, 401, 200]
    assert ask("POST", f"{gateway}/v1/chat/completions", json=CHAT, **keyed)[0] == 401

    with database.frozen(), ThreadPoolExecutor(2) as beside:
        chats = beside.submit(ask_at_once, [("POST", f"{gateway}/v1/chat/completions")] * 24, chat=True)
        asked = beside.submit(
            ask_at_once, [("GET", f"{web}/api/v1/agents")] * 12 + [("GET", f"{web}/readyz")], chat=True
        )
        for url in (web, gateway):
            status, seconds = ask("GET", f"{url}/livez")
            assert (status, seconds < LOOSE_SECONDS) == (200, True), seconds
        for answers_of in (chats.result(), asked.result()):
            assert {status for status, _ in answers_of} == {503}
            assert max(seconds for _, seconds in answers_of) < LOOSE_SECONDS
        # From now on it is known, and nobody waits.
        later = ask_at_once([*pages, ("GET", f"{web}/")])
        assert [status for status, _ in later] == [503] * 4
        assert max(seconds for _, seconds in later) < LOOSE_SECONDS

    wait_for(lambda: answers(f"{web}/readyz") == 200 and answers(f"{gateway}/readyz") == 200)
    assert ask("GET", f"{web}/api/v1/agents", **keyed)[0] == 401


def test_a_slow_statement_is_let_finish(serve: Callable[..., str], database: Database, tmp_path: Path) -> None:
    """What waits for a lock waits, since the database answers."""
    port = pick_port(tmp_path / "port")
    gateway = serve("-m", "project.gateway", "--port", str(port), port=port)
    with psycopg.connect(database.cluster.url()) as other, ThreadPoolExecutor(1) as beside:
        other.execute("LOCK TABLE models_registry_call IN ACCESS EXCLUSIVE MODE")
        asked = beside.submit(ask, "GET", f"{gateway}/readyz")
        time.sleep(4)
        assert not asked.done()
        other.rollback()
        status, seconds = asked.result()
    assert status == 200 and seconds >= 4
