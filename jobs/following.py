"""Follows a job in a terminal until it ends, for `manage.py demo wait` and `manage.py rehearse`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.db import OperationalError, close_old_connections
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from jobs.models import Job

__all__ = ["EXIT_INTERRUPTED", "follow_job", "result_console"]

EXIT_INTERRUPTED = 130
"""What a shell says of a program that Ctrl-C ended."""
POLL_SECONDS = 0.5
PIPE_WIDTH = 120


def follow_job(
    find: Callable[[], Job | None],
    *,
    console: Console,
    title: str,
    stage: Callable[[str], str] = str,
    poll_seconds: float = POLL_SECONDS,
) -> Job | None:
    """Waits until the job that `find` finds is over, and returns it as it ended; None as soon as there is none.

    Progress goes to `console`: a bar on a terminal, elsewhere a line whenever `stage` makes something else of the job's
    message. A database that is restarting is waited for. Ctrl-C raises KeyboardInterrupt with the terminal as it was;
    the job goes on, unless the caller then cancels it.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    last = ""
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task(title, total=1.0)
        while True:
            job = _look(find, poll_seconds)
            if job is None or job.is_terminal:
                return job
            progress.update(bar, completed=job.progress, description=job.message or "starting")
            if not console.is_terminal and stage(job.message) != last:
                last = stage(job.message)
                console.print(f"{job.progress:4.0%}  {job.message}", highlight=False)
            time.sleep(poll_seconds)


def _look(find: Callable[[], Job | None], poll_seconds: float) -> Job | None:
    while True:
        try:
            close_old_connections()
            return find()
        except OperationalError:
            time.sleep(poll_seconds)


def result_console(file: Any) -> Console:
    """For the table at the end. A pipe has no width of its own, and a table wants more than the 80 assumed then."""
    return Console(file=file, width=None if file.isatty() else PIPE_WIDTH, highlight=False)
