"""A worker in a fork of this process that freezes (SIGSTOP) while it works at a job, its engine with it where it has
one, and is let go on after another has taken the job over."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import uuid
from collections.abc import Iterator
from typing import Any

import psutil
from django.db import connections, transaction

from jobs.models import Job
from jobs.runner import run_job
from jobs.sweeper import sweep
from training.exports import services as exports
from training.runs import launcher
from training.supervision import job as supervision

Place = tuple[str, str]
"""A module of `OWNERS` and its function, before which the worker stops itself."""

# `_as_plain` is the last that an exporter does before it stores anything.
OWNERS: dict[str, Any] = {"launcher": launcher, "supervision": supervision, "exports": exports}
WAIT_SECONDS = 180.0


class FreezingWorker:
    """Works at the job until it comes by the place. Use it as a context: nothing of it is left behind."""

    def __init__(self, job_id: uuid.UUID, place: Place) -> None:
        if transaction.get_connection().in_atomic_block:
            raise RuntimeError("a fork would share the connection of this transaction")
        self.job_id, self.engines = job_id, list[psutil.Process]()
        connections.close_all()
        self.pid = os.fork()
        if self.pid == 0:  # nothing of this process's own clean-up may run in it
            lost = False
            try:
                _arm(*place)
                lost = run_job(job_id) is None
            finally:
                os._exit(0 if lost else 1)

    def __enter__(self) -> FreezingWorker:
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*self.engines, *_list_children(self.pid)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def await_frozen(self) -> None:
        """Raises RuntimeError where it ended without coming by. Its engines are frozen as well, as by a machine that
        was put to sleep."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            raise RuntimeError(f"the worker ended with {status} and did not freeze")
        self.engines = _list_children(self.pid)
        for process in self.engines:
            process.send_signal(signal.SIGSTOP)

    def await_taken_back(self) -> None:
        """Waits until its lease has run out and the sweep has given the job back. Raises TimeoutError."""
        for _ in _until(WAIT_SECONDS):
            if sweep().taken_back and Job.objects.get(id=self.job_id).state == "queued":
                return
        raise TimeoutError("the lease of a frozen worker did not run out")

    def resume(self) -> bool:
        """Lets all go on, to the end; whether the worker saw that it had lost the job, and left no engine."""
        for process in self.engines:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)
        os.kill(self.pid, signal.SIGCONT)
        for _ in _until(WAIT_SECONDS):
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return status == 0 and not any(_is_alive(process) for process in self.engines)
        raise TimeoutError("the worker that was let go on did not end")


def _arm(owner: str, name: str) -> None:
    real = getattr(OWNERS[owner], name)

    def freezes(*arguments: Any, **named: Any) -> Any:
        os.kill(os.getpid(), signal.SIGSTOP)
        return real(*arguments, **named)

    setattr(OWNERS[owner], name, freezes)


def _list_children(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return list(psutil.Process(pid).children(recursive=True))
    return []


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _until(seconds: float) -> Iterator[None]:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        yield
        time.sleep(0.1)
