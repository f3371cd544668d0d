"""The tests' own servers: shared by sessions side by side, gone when the last one is gone, however it went."""

import os
import subprocess
import sys

import psutil
import psycopg
import redis

from project.embedded.layout import PROJECT_ROOT
from project.embedded.processes import find_processes
from project.embedded.testing import SESSION
from tests.project.embedded.waiting import wait_for

SESSION_CODE = """
import sys, pathlib
from project.embedded.testing import ensure_test_services
services = ensure_test_services(pathlib.Path(sys.argv[1]))
assert ensure_test_services(pathlib.Path(sys.argv[1])) == services
print(services.database_url, services.redis_url, flush=True)
sys.stdin.read()
"""


class Session:
    """A process that uses the servers until its stdin closes, as a test session does."""

    def __init__(self, layout):
        environment = {name: value for name, value in os.environ.items() if name != SESSION}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SESSION_CODE, str(layout.var)],
            cwd=PROJECT_ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self):
        self.database_url, self.redis_url = self.process.stdout.readline().split()
        self.server_url = self.database_url.rsplit("/", 1)[0] + "/postgres"
        return self

    def end(self):
        self.process.communicate()
        assert self.process.returncode == 0


def ask(session):
    with psycopg.connect(session.server_url) as connection:
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)
    with redis.Redis.from_url(session.redis_url) as client:
        assert client.ping()


def test_sessions_share_the_servers_and_the_last_one_stops_them(layout, cluster):
    sessions = [Session(layout) for _ in range(3)]
    first, second, third = (session.read() for session in sessions)
    assert first.server_url == second.server_url == third.server_url
    assert len({session.database_url for session in sessions}) == 3
    ask(first)
    nobody_else_can_connect(layout)
    first.end()
    third.process.kill()
    third.process.communicate()
    ask(second)
    second.end()
    wait_for(lambda: find_processes(layout) == [])
    assert not layout.services.exists()


def nobody_else_can_connect(layout):
    """And as root the server runs as another user."""
    assert (layout.run / "postgres").stat().st_mode & 0o077 == 0
    servers = [process for process in find_processes(layout) if process.name() == "postgres"]
    assert servers
    if os.geteuid() == 0:
        assert {psutil.Process(server.pid).uids().effective for server in servers}.isdisjoint({0})


def test_a_session_after_a_kill_of_everything_starts_anew_without_old_databases(layout, cluster):
    first = Session(layout).read()
    with psycopg.connect(first.server_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE test_left_behind")
    for process in find_processes(layout):
        process.kill()
    first.process.communicate()
    second = Session(layout).read()
    ask(second)
    with psycopg.connect(second.server_url) as connection:
        names = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'test%'").fetchall()
    assert names == []
    second.end()
    wait_for(lambda: find_processes(layout) == [])
