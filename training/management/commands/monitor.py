"""`manage.py monitor`: what a run, or a training in a folder, is doing, once or until it ends."""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.db import OperationalError
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from decisions.models import Agent
from training.local.watching import began_at, find_newest_folder, find_run_folder, observe_folder
from training.models import TrainingRun
from training.run_states import TERMINAL_STATES, RunState
from training.runs.shown.monitoring import observe_run
from workspaces.commands import UncheckedCommand
from workspaces.models import Workspace
from workspaces.templatetags.show import duration

LATEST = "latest"
EXIT_NOT_DONE, EXIT_INTERRUPTED = 1, 130
FIGURES = 12
MOST_SECONDS = 86_400
Look = Callable[[], dict[str, Any]]


class Command(UncheckedCommand):
    help = (
        "Shows what a run, or manage.py train, is doing: progress, newest figures, time and cost so far and as"
        " estimated. Exit codes: 0 shown, or with --watch the run succeeded; 1 with --watch it ended otherwise; 2 the"
        " run is unknown; 130 interrupted: the run continues."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--run-id",
            default=LATEST,
            help="ID of the run, output folder of manage.py train, or latest (default): whichever began last, or the "
            "newest run of the agent if given",
        )
        parser.add_argument("--agent", help="slug of an agent: latest only looks at its runs")
        parser.add_argument("--watch", action="store_true", help="keep showing it until the run ends")
        parser.add_argument("--every", type=float, default=2.0, help="with --watch: seconds between two updates (2)")
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument("--json", action="store_true", help="report as JSON lines, one per update")

    def handle(self, *_: Any, **options: Any) -> None:
        if not 0 < options["every"] <= MOST_SECONDS:
            self.refuse(f"--every: {options['every']:g} must be above 0, up to {MOST_SECONDS:,}")
        look = self._find(options)
        if not options["watch"]:
            self._tell(look(), as_json=options["json"])
            return
        try:
            seen = self._watch(look, options)
        except KeyboardInterrupt:
            self.stderr.write("Stopped watching. The run continues.")
            sys.exit(EXIT_INTERRUPTED)
        if seen["state"] != RunState.SUCCEEDED:
            sys.exit(EXIT_NOT_DONE)

    def _find(self, options: dict[str, Any]) -> Look:
        """What shows the run, or the folder in which `manage.py train` works, as it is now."""
        name, named = options["run_id"], options["agent"] or options["workspace"]
        if name != LATEST and (folder := find_run_folder(Path(name))) is not None:
            return partial(observe_folder, folder)
        folder = find_newest_folder() if name == LATEST and not named else None
        if folder is None:
            return partial(_look_again, self._find_run(self.find_workspace(options["workspace"]), options))
        try:
            run = TrainingRun.objects.order_by("-id").first()
        except OperationalError:  # a training in a folder needs no instance
            run = None
        if run is not None and run.created_at > began_at(folder):
            return partial(_look_again, self._find_run(self.find_workspace(None), options))
        return partial(observe_folder, folder)

    def _find_run(self, workspace: Workspace, options: dict[str, Any]) -> TrainingRun:
        runs = TrainingRun.objects.for_workspace(workspace).select_related(
            "agent", "produced_version__registered_model"
        )
        if options["agent"]:
            if not Agent.objects.for_workspace(workspace).filter(slug=options["agent"]).exists():
                known = Agent.objects.for_workspace(workspace).values_list("slug", flat=True)
                self.refuse(f"--agent: name one of: {', '.join(known) or 'none'}")
            runs = runs.filter(agent__slug=options["agent"])
        name = options["run_id"]
        try:
            found = runs.order_by("-id").first() if name == LATEST else runs.filter(pk=uuid.UUID(name)).first()
        except ValueError:
            found = None
        if found is None:
            self.refuse(
                "there are no runs yet" if name == LATEST else f"--run-id: {name!r} is not the id of a run here"
            )
        return found

    def _watch(self, look: Look, options: dict[str, Any]) -> dict[str, Any]:
        terminal = {state.value for state in TERMINAL_STATES}
        if options["json"]:
            while True:
                seen = look()
                self._tell(seen, as_json=True)
                if seen["state"] in terminal:
                    return seen
                time.sleep(options["every"])
        with Live(console=Console(), auto_refresh=False, transient=False) as live:
            while True:
                seen = look()
                live.update(draw(seen), refresh=True)
                if seen["state"] in terminal:
                    return seen
                time.sleep(options["every"])

    def _tell(self, seen: dict[str, Any], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(seen))
            self.stdout.flush()
        else:
            console = Console()
            with console.capture() as told:
                console.print(draw(seen))
            self.stdout.write(told.get())


def _look_again(run: TrainingRun) -> dict[str, Any]:
    run.refresh_from_db()
    return observe_run(run)


def draw(seen: dict[str, Any]) -> Group:
    """One look, for a terminal."""
    table = Table.grid(padding=(0, 2))
    table.add_row("state", f"{seen['state']}, {seen['message']}" if seen["message"] else seen["state"])
    table.add_row("updates", str(seen["steps"]))
    table.add_row("time", _times(seen))
    if seen["cost"] is not None:
        expected = f", estimated {seen['estimated_cost']:.2f}" if seen["estimated_cost"] is not None else ""
        table.add_row("cost", f"{seen['cost']:.2f} so far{expected}")
    for name, value in list(seen["figures"].items())[:FIGURES]:
        table.add_row(name.replace("_", " "), f"{value:.4g}")
    for name in ("warning", "error", "version"):
        if seen[name]:
            table.add_row(name, seen[name])
    bar = ProgressBar(total=1.0, completed=seen["progress"], width=48)
    return Group(Text(f"{seen['name']}  {seen['run']}", style="bold"), bar, table)


def _times(seen: dict[str, Any]) -> str:
    parts = []
    for name, what in (("elapsed_seconds", ""), ("left_seconds", " left"), ("estimated_seconds", " estimated")):
        if seen[name] is not None:
            parts.append(f"{duration(seen[name])}{what}")
    return ", ".join(parts) or "not started"
