"""The same tests against servers of another make, over TCP and with a password: `make test-servers`.

    python -m tests.servers 16,redis -- tests/jobs -q

PostgreSQL 16 or 18 (both come with the package of the embedded one) and Debian's redis-server or the embedded Valkey
are started in a temporary folder, pytest runs with DATABASE_URL and REDIS_URL, and they are stopped. The role is a
plain one that may make databases, as on a server of one's own; the embedded one is a superuser.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
import redis
from psycopg import sql

from project.embedded import postgres as embedded
from project.embedded.layout import make_private, write_private
from project.embedded.valkey import Valkey, find_server, pick_port

ROOT = Path(__file__).resolve().parents[1]
BINARIES = {"16": "pginstall", "18": "pginstall18"}
BROKERS = ("redis", "valkey")
START_SECONDS = STOP_SECONDS = 60.0


class NoServerError(Exception):
    """The server's program is not there, or it does not start; says what to do."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Where they listen. database_url names a role that may make databases, and a database that it owns."""

    database_url: str
    redis_url: str


@contextlib.contextmanager
def serve(version: str, broker: str) -> Iterator[Servers]:
    """Both servers while the block runs. Raises NoServerError."""
    program = find_broker(broker)
    folder = Path(tempfile.mkdtemp(prefix="reckoner-servers-"))
    running: list[subprocess.Popen[bytes]] = []
    try:
        yield Servers(start_postgres(folder, version, running), start_broker(folder, program, running))
    finally:
        for server in running:
            server.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown; the brokers end as well
        for server in running:
            server.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def find_broker(broker: str) -> Path:
    """Debian's redis-server is installed where we may. Raises NoServerError."""
    if broker == "valkey":
        return find_server()
    if shutil.which("redis-server") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        sys.stderr.write("installing redis-server\n")
        quiet = {"stdout": subprocess.DEVNULL, "env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}}
        subprocess.run(["apt-get", "update", "-qq"], check=False, **quiet)
        # Its own service would only sit on port 6379.
        subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "redis-server"], check=False, **quiet
        )
    found = shutil.which("redis-server")
    if found is None:
        raise NoServerError("no redis-server: install Debian's package of that name, or give 16,valkey")
    return Path(found)


def start_postgres(folder: Path, version: str, running: list[subprocess.Popen[bytes]]) -> str:
    """A new cluster that answers on 127.0.0.1 only, and to nobody without a password; its URL."""
    binaries = embedded.find_binaries().parents[1] / BINARIES[version] / "bin"
    owner = embedded.find_owner()
    user, ids = (owner[0], owner[1:]) if owner else (None, None)
    home = folder / "postgres"
    make_private(home, ids)
    if owner:
        for path in (binaries / "postgres", home / "data"):
            embedded.open_way(path)
    passwords = {name: secrets.token_urlsafe(12) for name in ("postgres", "reckoner")}
    pwfile = home / "password"
    write_private(pwfile, passwords["postgres"])
    if ids:
        os.chown(pwfile, *ids)
    command = [str(binaries / "initdb"), "-D", str(home / "data"), "-U", "postgres", f"--pwfile={pwfile}"]
    made = embedded.run_as(user, [*command, "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"])
    if made.returncode != 0:
        raise NoServerError(f"initdb of PostgreSQL {version} failed: {(made.stderr or made.stdout).strip()}")
    port = pick_port(folder / "postgres.port")
    settings = (
        "listen_addresses=127.0.0.1", f"port={port}", "unix_socket_directories=", "logging_collector=off",
        *embedded.FAST,
    )  # fmt: skip
    options = [part for setting in settings for part in ("-c", setting)]
    _start(folder, "postgres", [str(binaries / "postgres"), "-D", str(home / "data"), *options], running, user)
    admin = f"postgresql://postgres:{passwords['postgres']}@127.0.0.1:{port}/postgres"
    connection = _wait(
        folder, "postgres", running[-1], lambda: psycopg.connect(admin, autocommit=True, connect_timeout=5)
    )
    with connection:
        role, password = sql.Identifier("reckoner"), sql.Literal(passwords["reckoner"])
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEDB PASSWORD {}").format(role, password))
        connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(role, role))
    return f"postgresql://reckoner:{passwords['reckoner']}@127.0.0.1:{port}/reckoner"


def start_broker(folder: Path, program: Path, running: list[subprocess.Popen[bytes]]) -> str:
    """redis-server takes the same configuration as Valkey."""
    port = pick_port(folder / "broker.port")
    server = Valkey(folder / "broker", folder / "broker.conf", port, secrets.token_urlsafe(12))
    server.prepare()
    _start(folder, "broker", [str(program), str(server.config)], running, None)
    client = redis.Redis.from_url(server.url())
    _wait(folder, "broker", running[-1], client.ping)
    client.close()
    return server.url()


def _start(
    folder: Path, name: str, command: list[str], running: list[subprocess.Popen[bytes]], user: str | None
) -> None:
    with (folder / f"{name}.log").open("w") as log:
        running.append(
            subprocess.Popen(
                command, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=user, group=user,
                extra_groups=None if user is None else [],
                # Ctrl-C is for pytest; the servers go after it.
                start_new_session=True,
            )
        )  # fmt: skip


def _wait(folder, name, server, ask):
    """The first answer."""
    give_up = time.monotonic() + START_SECONDS
    while True:
        try:
            return ask()
        except (psycopg.OperationalError, redis.RedisError) as error:
            if server.poll() is not None or time.monotonic() > give_up:
                log = (folder / f"{name}.log").read_text()
                raise NoServerError(f"{name} does not answer: {error}\n{log}") from error
        time.sleep(0.05)


def run_to_its_end(command: list[str], environment: dict[str, str]) -> int:
    """Its exit code. Told to stop, pytest gets Ctrl-C and the time to end what its tests have started."""
    with subprocess.Popen(command, cwd=ROOT, env=environment) as pytest:
        try:
            return pytest.wait()
        except (KeyboardInterrupt, SystemExit):
            pytest.send_signal(signal.SIGINT)
            try:
                pytest.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                pytest.kill()
            raise


def main(arguments: Sequence[str] | None = None) -> int:
    """pytest's exit code; 2 when the servers are not to be had."""
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description=__doc__.partition("\n")[0])
    parser.add_argument("servers", help="PostgreSQL's version (16, 18) and the broker (redis, valkey): 16,redis")
    parser.add_argument("pytest", nargs="*", help="after --, arguments of pytest")
    options = parser.parse_args(arguments)
    version, _, broker = options.servers.partition(",")
    if version not in BINARIES or broker not in BROKERS:
        parser.error(f"{options.servers}: give one of {', '.join(f'{v},{b}' for v in BINARIES for b in BROKERS)}")
    # A shell's background jobs ignore Ctrl-C, and pytest would inherit that.
    handlers = {signal.SIGTERM: lambda *_: sys.exit(128 + signal.SIGTERM), signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        with serve(version, broker) as servers:
            sys.stderr.write(f"PostgreSQL {version} and {broker} answer on 127.0.0.1\n")
            environment = {**os.environ, "DATABASE_URL": servers.database_url, "REDIS_URL": servers.redis_url}
            command = [sys.executable, "-m", "pytest", *options.pytest]
            return run_to_its_end(command, environment)
    except NoServerError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
