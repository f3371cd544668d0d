"""The gateway's processes: one that dies or hangs is replaced, and the others go on, without their first one too."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from project.embedded.layout import PROJECT_ROOT
from tests.project.embedded.waiting import wait_for

pytestmark = pytest.mark.slow
SERVER = """
import os, socket, sys, time
from project.gateway import processes
processes.STUCK_SECONDS, processes.PAUSE_SECONDS, processes.ORPHANED_SECONDS = 1.0, 0.1, 5.0
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), reuse_port=True)

def serve(beat):
    listener.settimeout(0.1)
    while True:
        beat()
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        with connection:
            connection.settimeout(None)
            asked = connection.recv(9)
            if asked == b"hang":
                time.sleep(600)
            connection.sendall(str(os.getpid()).encode())

processes.Processes(2, serve).run()
print("ended")
"""


class Server:
    def __init__(self, port: int) -> None:
        self.port = port
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(port)], cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": str(PROJECT_ROOT)},
        )  # fmt: skip

    def kill(self) -> None:
        """The first process alone."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def children(self) -> set[int]:
        children = psutil.Process(self.process.pid).children()
        return {child.pid for child in children if child.status() != psutil.STATUS_ZOMBIE}

    def ask(self, said: bytes = b"who") -> int | None:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
                connection.settimeout(20)
                connection.sendall(said)
                return int(connection.recv(99) or 0)
        except OSError:
            return None


@pytest.fixture
def server(free: Callable[[], int]) -> Iterator[Server]:
    server = Server(free())
    wait_for(lambda: len(server.children()) == 2 and server.ask() is not None)
    yield server
    server.kill()


@pytest.fixture
def free(tmp_path: Path) -> Callable[[], int]:
    def pick() -> int:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            return int(listener.getsockname()[1])

    return pick


def test_what_is_killed_is_replaced_and_the_other_answers_meanwhile(server: Server) -> None:
    before = server.children()
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    assert server.ask() in server.children() | before - {victim}
    wait_for(lambda: len(server.children()) == 2 and victim not in server.children())
    assert len(server.children() & before) == 1


def test_one_that_hangs_is_killed_and_replaced(server: Server) -> None:
    before = server.children()
    assert not server.ask(b"hang")  # its connection ends with the process
    wait_for(lambda: len(server.children()) == 2 and server.children() != before)
    assert server.ask() in server.children()


def test_they_end_with_their_first_process(server: Server) -> None:
    children = server.children()
    server.process.terminate()
    assert server.process.communicate(timeout=30)[0] == "ended\n"
    assert not any(map(psutil.pid_exists, children))


def test_when_their_first_process_is_killed_they_answer_beside_the_next_one_s_and_end(server: Server) -> None:
    other = Server(server.port)
    wait_for(lambda: len(other.children()) == 2)
    children = other.children()
    other.kill()
    answered = set[int | None]()
    wait_for(lambda: answered.add(server.ask()) or (answered >= server.children() and answered & children))
    assert None not in answered
    wait_for(lambda: not any(map(psutil.pid_exists, children)))
    assert server.ask() in server.children()
