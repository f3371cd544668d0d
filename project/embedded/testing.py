"""PostgreSQL and Valkey for the tests: started by the first test session, stopped after the last one.

project/settings_test.py calls `ensure_test_services`. A keeper process (`main` below) owns the servers. Every process
that uses them holds a shared lock on one file, which the kernel releases when the process dies; when the keeper gets
the lock exclusively, it stops the servers.
"""

import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from project.embedded.errors import EmbeddedError
from project.embedded.layout import PROJECT_ROOT, Layout, write_private
from project.embedded.postgres import Postgres, find_owner
from project.embedded.processes import MARK, reap
from project.embedded.valkey import Valkey, pick_port

SESSION = "RECKONER_TEST_SESSION"
START_SECONDS = 120.0
_held: dict[Path, int] = {}


@dataclass(frozen=True, slots=True)
class Services:
    """Where the tests' servers listen. The database named in database_url does not exist: tests make their own.

    Its name and the Valkey database differ from session to session, so that sessions can run side by side.
    """

    database_url: str
    redis_url: str


def ensure_test_services(var: Path) -> Services:
    """The servers of this checkout, kept under `var`, started if they are not running.

    To be called by every process that uses them, before it does; xdist's workers get the session's name from the
    controller's environment. Raises EmbeddedError when they do not start.
    """
    layout = Layout(var.resolve())
    layout.create()
    session = os.environ.setdefault(SESSION, f"{os.getpid()}_{secrets.token_hex(3)}")
    starting = _lock(layout.run / "start.lock", fcntl.LOCK_EX)
    try:
        if layout.var not in _held:
            # Waits while a keeper is stopping the servers. Never closed: it is held as long as this process lives.
            _held[layout.var] = _lock(layout.run / "users.lock", fcntl.LOCK_SH)
        if not _is_kept(layout):
            _start_keeper(layout)
    finally:
        os.close(starting)
    where = json.loads(layout.services.read_text(encoding="utf-8"))
    database = zlib.crc32(session.encode()) % 64
    return Services(f"{where['postgres']}/reckoner_{session}", f"{where['valkey']}/{database}")


def _lock(path: Path, mode: int) -> int:
    """A descriptor that holds the lock until it is closed; children do not inherit it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, mode)
    return descriptor


def _is_kept(layout: Layout) -> bool:
    """Whether a keeper lives: it holds this lock for life."""
    with (layout.run / "keeper.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _start_keeper(layout: Layout) -> None:
    layout.services.unlink(missing_ok=True)
    path = layout.log / "keeper.log"
    with path.open("w") as log:
        keeper = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", "project.embedded.testing", str(layout.var)],
            cwd=PROJECT_ROOT,
            env={**os.environ, MARK: str(layout.var)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C in the terminal is for the tests; the keeper notices by itself that they are gone.
            start_new_session=True,
        )
    give_up = time.monotonic() + START_SECONDS
    while not layout.services.exists():
        if keeper.poll() is not None or time.monotonic() > give_up:
            raise EmbeddedError(f"the tests' servers did not start; {path} says:\n{path.read_text()}")
        time.sleep(0.02)
    # It outlives this process, which does not wait for it.
    keeper.returncode = 0


def main(var: Path) -> None:
    """The keeper: starts both servers, serves until nobody holds the users' lock, stops them."""
    layout = Layout(var)
    kept = _lock(layout.run / "keeper.lock", fcntl.LOCK_EX)
    reap(layout)
    postgres = Postgres(layout.postgres, layout.locate_sockets("postgres"), durable=False)
    valkey = Valkey(layout.valkey, layout.run / "valkey.conf", pick_port(layout.run / "valkey.port"), "tests")
    postgres.prepare()
    valkey.prepare()
    owner = find_owner()
    user = owner[0] if owner else None
    servers = [_start(layout, "postgres", postgres.command(), user), _start(layout, "valkey", valkey.command(), None)]
    try:
        postgres.wait_until_ready(lives=lambda: servers[0].poll() is None)
        valkey.wait_until_ready(lives=lambda: servers[1].poll() is None)
        _drop_databases(postgres)
        where = {"postgres": postgres.url("").rstrip("/"), "valkey": valkey.url().rsplit("/", 1)[0]}
        write_private(layout.services, json.dumps(where))
        users = os.open(layout.run / "users.lock", os.O_RDWR)
        while all(server.poll() is None for server in servers):
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.3)
    finally:
        layout.services.unlink(missing_ok=True)
        for server in servers:
            server.send_signal(signal.SIGINT)
        for server in servers:
            server.wait(timeout=30)
        os.close(kept)


def _start(layout: Layout, name: str, command: list[str], user: str | None) -> subprocess.Popen[bytes]:
    groups: list[int] | None = None if user is None else []
    with (layout.log / f"{name}.log").open("w") as log:
        return subprocess.Popen(  # noqa: S603 - the packaged servers
            command, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=user, group=user,
            extra_groups=groups,
        )  # fmt: skip


def _drop_databases(postgres: Postgres) -> None:
    """Databases of sessions that were killed."""
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        for (name,) in connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'test\\_%'").fetchall():
            connection.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
