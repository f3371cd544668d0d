"""The pool of a worker's processes (`CELERY_WORKER_POOL`), which replaces a process as soon as it is gone."""

from __future__ import annotations

from typing import Any

from celery.concurrency import prefork
from celery.concurrency.asynpool import AsynPool

PAUSE = 0.05
"""Seconds between two looks at a process that is ending."""
LOOKS = 100


class ReplacingPool(AsynPool):  # type: ignore[misc]
    """Looks again at a process that was still ending when its end was noticed.

    The kernel closes the files of a process that ends, by which Celery notices it, before anybody can wait for the
    process. Celery looks once then. Where that was too early, as it often is on a busy machine and with many threads,
    only the round of every 5 seconds would find it, and meanwhile the worker has a process less.
    """

    def _event_process_exit(self, hub: Any, proc: Any, looks: int = LOOKS) -> None:
        super()._event_process_exit(hub, proc)
        if proc in self._pool and looks:  # a living process can close its files, too: the looks have an end
            hub.call_later(PAUSE, self._event_process_exit, hub, proc, looks - 1)


class TaskPool(prefork.TaskPool):  # type: ignore[misc]
    Pool = ReplacingPool
