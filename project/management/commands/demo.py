"""`manage.py demo wait`: follow the demo world's loop to its end and print what it showed."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import OperationalError, close_old_connections
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from jobs.models import Job, JobState
from project.demo.loop import KIND
from project.demo.report import print_report
from project.management.commands.bootstrap import ADMIN_EMAIL, PASSWORD_FILE
from workspaces.models import User

EXIT_NOT_BETTER = 1
EXIT_NO_RESULT = 2
POLL_SECONDS = 0.5
PIPE_WIDTH = 120


class Command(BaseCommand):
    help = (
        "Follows the demo world's loop. Exit codes: 0 the trained model is better, 1 it is not, "
        "2 the loop did not end with a result."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["wait", "show"], help="wait: until it ends; show: as it is now")
        parser.add_argument("--json", action="store_true", help="the result as one JSON line on standard output")

    def handle(self, *_: Any, **options: Any) -> None:
        errors = Console(stderr=True)
        job = self._follow(errors) if options["action"] == "wait" else Job.objects.filter(kind=KIND).first()
        if job is None:
            self._fail(options, "There is no demo loop in this ledger.")
        elif job.state != JobState.SUCCEEDED:
            self._fail(options, f"The demo loop is {job.state}: {job.error or job.message}")
        else:
            self._report(job, as_json=options["json"])

    def _report(self, job: Job, *, as_json: bool) -> None:
        assert job.result is not None and job.finished_at is not None and job.started_at is not None
        seconds = round((job.finished_at - job.started_at).total_seconds(), 1)
        if as_json:
            self.stdout.write(json.dumps({**job.result, "loop_seconds": seconds}))
        else:
            # A pipe has no width of its own, and the table wants more than the 80 that is assumed then.
            console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else PIPE_WIDTH)
            print_report(console, job.result)
            console.print(f"Loop         {seconds:.0f} s")
            password = settings.VAR / "secrets" / PASSWORD_FILE
            admin = User.objects.filter(email=ADMIN_EMAIL, must_change_password=True).first()
            if admin is not None and password.exists():
                console.print(f"Log in       {admin.email}, one-time password {password.read_text()}", highlight=False)
        sys.exit(0 if job.result["better"] else EXIT_NOT_BETTER)

    def _fail(self, options: dict[str, Any], reason: str) -> None:
        if options["json"]:
            self.stdout.write(json.dumps({"error": reason}))
        else:
            self.stderr.write(reason)
        sys.exit(EXIT_NO_RESULT)

    def _follow(self, console: Console) -> Job | None:
        """Progress on standard error: a bar on a terminal, a line per message elsewhere."""
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        last = ""
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            bar = progress.add_task("demo loop", total=1.0)
            while True:
                job = self._look()
                if job is None or job.is_terminal:
                    return job
                progress.update(bar, completed=job.progress, description=job.message or "starting")
                stage = job.message.split(":")[0]
                if not console.is_terminal and stage != last:
                    last = stage
                    console.print(f"{job.progress:4.0%}  {job.message}", highlight=False)
                time.sleep(POLL_SECONDS)

    @staticmethod
    def _look() -> Job | None:
        """The job now; a database that is restarting is waited for."""
        while True:
            try:
                close_old_connections()
                return Job.objects.filter(kind=KIND).order_by("created_at").first()
            except OperationalError:
                time.sleep(POLL_SECONDS)
