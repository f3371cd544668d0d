"""The database's threads: an event loop asks by them, and holds no connection while a model writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from project.database import check_connections
from project.postgresql.watch import watch

P = ParamSpec("P")
T = TypeVar("T")
THREADS = 8
"""Each has a connection. A chat keeps one for milliseconds, before and after the model."""


class Database:
    """Runs services in threads, each of which keeps its connection."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="database")

    async def run(self, service: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the service returns or raises. A task that is cancelled meanwhile learns what was done, and is cancelled
        at its next wait."""

        def call() -> T:
            watch.refuse_while_away()
            check_connections()
            return service(*args, **kwargs)

        running = asyncio.get_running_loop().run_in_executor(self._threads, call)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait({running})
            if (task := asyncio.current_task()) is not None:
                task.cancel()
            return running.result()

    def close(self) -> None:
        """Waits for what runs."""
        self._threads.shutdown()
