"""`manage.py demo`: follows the demo to its end and prints its result; `demo math` shows learning by acting."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from django.core.management.base import CommandParser
from rich.console import Console

from jobs.following import EXIT_INTERRUPTED, follow_job, result_console
from jobs.models import Job, JobState
from project.demo.episodes_report import print_episodes
from project.demo.loop import KIND
from project.demo.report import print_report
from training.errors import EngineFailed
from training.local.episode_demo import Plan, run_demo
from training.local.plans import UnusableRun
from training.local.runs import Interrupted
from workspaces.accounts.passwords import FIRST_ADMIN, one_time_file
from workspaces.commands import UncheckedCommand
from workspaces.models import User

USUAL = Plan()
EXIT_FAILED, EXIT_NO_RESULT = 1, 2


class Command(UncheckedCommand):
    help = (
        "Follows the demo; math: a tiny model learns to solve equations by acting, in some minutes, without a running "
        "instance. Exit codes: 0 it ended with a result, whether or not the trained model is better (of the demo, "
        "`better` in the JSON says), 1 a training of math failed, 2 there is no result, or math cannot use its folder, "
        "130 interrupted: the demo continues, and math resumes when it is called with the same --output."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "action",
            choices=["wait", "show", "math"],
            help="wait: until it ends; show: as it is now; math: learn to solve equations",
        )
        parser.add_argument(
            "--output", type=Path, help="math: folder for models and episodes (default: one that is removed at the end)"
        )
        parser.add_argument("--updates", type=int, default=USUAL.updates, help="math: default %(default)s")
        parser.add_argument("--seed", type=int, default=USUAL.seed, help="math: default %(default)s")
        parser.add_argument("--json", action="store_true", help="the result as one JSON line on standard output")

    def handle(self, *_: Any, **options: Any) -> None:
        if options["action"] == "math":
            self._learn_math(options)
            return
        job = self._follow(options) if options["action"] == "wait" else _find_loop()
        if job is None:
            self._fail(options, "This ledger has no demo.")
        elif job.state != JobState.SUCCEEDED:
            self._fail(options, f"The demo loop is {job.state}: {job.error or job.message}")
        else:
            self._report(job, as_json=options["json"])

    def _learn_math(self, options: dict[str, Any]) -> None:
        if options["updates"] < 1:
            self.refuse(f"--updates: {options['updates']} must be at least 1")
        if not 0 <= options["seed"] < 1000:
            self.refuse(f"--seed: {options['seed']} must be from 0 to 999")
        plan = Plan(updates=options["updates"], seed=options["seed"])
        try:
            with ExitStack() as stack:
                folder = options["output"] or Path(stack.enter_context(TemporaryDirectory(prefix="reckoner-demo-")))
                found = run_demo(plan, folder, lambda text: self.stderr.write(text, str))
        except UnusableRun as error:
            self.refuse("\n".join(error.faults))
        except EngineFailed as error:
            self._fail(options, str(error), EXIT_FAILED)
        except Interrupted as error:
            self._fail(options, str(error), EXIT_INTERRUPTED)
        if options["output"] is None:
            found.pop("model")
        if options["json"]:
            self.stdout.write(json.dumps(found))
        else:
            print_episodes(result_console(sys.stdout), found)

    def _follow(self, options: dict[str, Any]) -> Job | None:
        try:
            return follow_job(_find_loop, console=Console(stderr=True), title="demo loop", stage=_stage)
        except KeyboardInterrupt:
            self._fail(options, "Stopped following. The demo continues.", EXIT_INTERRUPTED)

    def _report(self, job: Job, *, as_json: bool) -> None:
        assert job.result is not None and job.finished_at is not None and job.started_at is not None
        seconds = round((job.finished_at - job.started_at).total_seconds(), 1)
        if as_json:
            self.stdout.write(json.dumps({**job.result, "loop_seconds": seconds}))
            self.stderr.write(f"\n{job.result.get('summary', '')}\n", style_func=str)
        else:
            console = result_console(sys.stdout)
            print_report(console, job.result)
            console.print(f"Loop         {seconds:.0f} s")
            password = one_time_file()
            admin = User.objects.filter(email=FIRST_ADMIN, must_change_password=True).first()
            if admin is not None and password.exists():
                console.print(f"Log in       {admin.email}, one-time password {password.read_text()}", highlight=False)
        sys.exit(0)

    def _fail(self, options: dict[str, Any], reason: str, code: int = EXIT_NO_RESULT) -> NoReturn:
        if options["json"]:
            self.stdout.write(json.dumps({"error": reason}))
        else:
            self.stderr.write(reason)
        sys.exit(code)


def _find_loop() -> Job | None:
    return Job.objects.filter(kind=KIND).order_by("created_at").first()


def _stage(message: str) -> str:
    """Messages are a stage, a colon, and how far it is."""
    return message.split(":")[0]
