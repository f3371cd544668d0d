"""The web process as `make run` starts it, with one worker of two threads."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import psutil
from django.conf import settings

from project.embedded.layout import PROJECT_ROOT
from project.embedded.valkey import pick_port


class Web:
    """One worker with two threads; a client that moves less than 1 KB/s for a second is cut off."""

    def __init__(self, folder: Path, *, port: int | None = None, database: str | None = None) -> None:
        self.port = port or pick_port(folder / "port")
        self.log = folder / "web.log"
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "project.settings", "RECKONER_VAR": str(folder),
            "RECKONER_SLOW_CLIENT_SECONDS": "1",
        }  # fmt: skip
        if database is not None:  # a test's, whose keys were made with this secret
            environment["DATABASE_URL"] = f"{os.environ['DATABASE_URL'].rpartition('/')[0]}/{database}"
            environment["RECKONER_API_KEY_PEPPER"] = settings.API_KEY_PEPPER
        command = [sys.executable, "-m", "gunicorn", "-c", "python:project.web.server", "project.wsgi:application"]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*command, "--bind", f"127.0.0.1:{self.port}", "--workers", "1", "--threads", "2"],
                cwd=PROJECT_ROOT, env=environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def lives(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/livez", timeout=20) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def worker(self) -> psutil.Process | None:
        found = [child for child in psutil.Process(self.process.pid).children() if child.status() != "zombie"]
        return found[0] if found else None

    def stop(self) -> int:
        """SIGTERM to it and all of its processes; its exit code."""
        os.killpg(self.process.pid, signal.SIGTERM)
        return self.process.wait(30)

    def connect(self, sent: str, *, receives: int | None = None) -> socket.socket:
        connection = socket.socket()
        if receives:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", self.port))
        connection.sendall(sent.encode())
        return connection

    def ask(self, sent: str) -> tuple[int, dict[str, Any]]:
        """Everything that comes until the server closes: the status and the JSON of one answer."""
        with self.connect(sent) as connection:
            head, _, body = read_to_end(connection).partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def read_to_end(connection: socket.socket) -> bytes:
    """What is left, until the other side closes or resets."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            found += part
    return found
