"""A real instance for tests and benchmarks: started by `manage.py up`, looked at from outside, killed at will."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

import psutil
import psycopg

ROOT = Path(__file__).resolve().parents[1]
MARK = "RECKONER_INSTANCE"


def marked_processes(var: Path) -> list[psutil.Process]:
    """Every live process of the instance on `var`: the supervisor marks the environment of all it starts."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            marked = process.environ().get(MARK) == str(var)
            if marked or (str(var) in " ".join(process.cmdline()) and process.pid != os.getpid()):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def _empty(pipe: IO[str]) -> None:
    """Nobody else reads it, and a full one would stop the writer."""
    with pipe:
        pipe.read()


class Instance:
    """`manage.py up` on a directory of its own. `environment` overrides settings."""

    def __init__(self, var: Path, *, root: Path = ROOT, python: str = sys.executable, **environment: str) -> None:
        self.var, self.root, self.python = var.resolve(), root, python
        self.environment = {**os.environ, **environment, "RECKONER_VAR": str(self.var)}
        for name in ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE"):
            self.environment.pop(name, None)
        self.process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self, *arguments: str) -> None:
        """Returns once the instance says that it is ready."""
        self.var.mkdir(parents=True, exist_ok=True)
        with (self.var / "up.log").open("a") as log:
            self.process = subprocess.Popen(
                [self.python, "manage.py", "up", "--json", *arguments],
                cwd=self.root,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        for line in self.process.stdout:  # the bootstrap's words come before
            if line.startswith("{"):
                self.url = json.loads(line)["url"]
                threading.Thread(target=_empty, args=[self.process.stdout], daemon=True).start()
                return
        raise RuntimeError(f"the instance did not start:\n{(self.var / 'up.log').read_text()[-3000:]}")

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, "manage.py", *arguments],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def make_key(self, name: str, *, workspace: str = "") -> str:
        """A new admin's key to the API; `workspace` is a slug where the instance has several."""
        named = ("--workspace", workspace) if workspace else ()
        return str(json.loads(self.manage("create_key", name, "--scope", "admin", "--json", *named).stdout)["key"])

    def services(self) -> dict[str, str]:
        return json.loads((self.var / "run" / "services.json").read_text())

    def query(self, statement: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.services()["DATABASE_URL"], autocommit=True) as connection:
            return connection.execute(statement, values).fetchall()

    def find(self, *words: str) -> list[psutil.Process]:
        """Processes of this instance whose command line holds every word."""
        found = []
        for process in marked_processes(self.var):
            try:
                line = " ".join(process.cmdline())
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            if all(word in line for word in words):
                found.append(process)
        return found

    def kill(self, *words: str) -> int:
        """SIGKILL to every process that `find` gives; how many there were."""
        found = self.find(*words)
        for process in found:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        return len(found)

    def wait_for(self, statement: str, seconds: float, *values: Any) -> bool:
        """True once the statement gives a true value; waits through a database that is away."""
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            with contextlib.suppress(psycopg.OperationalError, OSError):  # restarting: look again
                rows = self.query(statement, *values)
                if rows and rows[0][0]:
                    return True
            time.sleep(0.2)
        return False
