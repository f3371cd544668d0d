"""`manage.py runs`: lists, starts, shows and stops runs, and makes the version of one the champion."""

from __future__ import annotations

import json
import sys
import uuid
from argparse import BooleanOptionalAction
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from decisions.models import Agent
from jobs.models import Job
from training.loops.best import MINUTES, Limits, plan_best, start_best
from training.loops.first_model.services import start_training
from training.models import DatasetSnapshot, TrainingRun
from training.runs.candidates import PolicyKind
from training.runs.defaults.presets import HELP as PRESET_HELP
from training.runs.defaults.presets import PRESETS
from training.runs.defaults.starting import Wanted, find_default_plan, start_default_run
from training.runs.services import cancel_run, switch_to_run
from training.runs.shown.curves import estimate_left
from training.runs.sweeps import start_sweep
from training.supervision.cards import find_base_name
from workspaces.access.actors import system
from workspaces.commands import UncheckedCommand
from workspaces.errors import ReckonerError
from workspaces.models import Workspace

SHOWN = 25
EXIT_NOT_DONE = 1
LATEST = "latest"


class Command(UncheckedCommand):
    help = (
        "Lists runs; starts one with default settings; trains an agent on its new decisions, or its first model on"
        " people's verdicts; trains several kinds of policy on the same rows and names the best for its price; starts a"
        " run for each combination of a grid; shows one; stops one, which leaves a checkpoint; or switches to the"
        " version that one made, which then serves everyone. Exit codes: 0 done, 1 the run is over, has made no"
        " version, or could not start, 2 the run, the dataset, the agent or the workspace is unknown."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["list", "start", "train", "best", "sweep", "status", "stop", "switch"])
        parser.add_argument(
            "run", nargs="?", default=LATEST, help="ID of the run, or latest (default), of the agent if given"
        )
        parser.add_argument(
            "--agent",
            help="slug of an agent: start, train, best and sweep need it; list and latest only look at its runs",
        )
        parser.add_argument(
            "--set",
            dest="changes",
            default="{}",
            metavar="JSON",
            help="start and sweep: fields of the spec as JSON, over the defaults",
        )
        parser.add_argument(
            "--base", default="", help="train: what a first model begins with: tiny, a folder or a hub id"
        )
        parser.add_argument(
            "--lora",
            action=BooleanOptionalAction,
            default=None,
            help="train: whether a first model from a named base is an adapter; by default only where all weights do"
            " not fit this machine",
        )
        parser.add_argument(
            "--minutes", type=float, default=MINUTES, help="best: how long the comparison may take (default: 60)"
        )
        parser.add_argument("--budget", type=float, help="best: what it may cost, by RECKONER_MACHINE_HOUR_PRICE")
        parser.add_argument(
            "--kinds",
            nargs="+",
            choices=list(PolicyKind),
            default=list(PolicyKind),
            help="best: kinds of policy to try",
        )
        parser.add_argument(
            "--retire-others", action="store_true", help="best: retire the versions of candidates that did not win"
        )
        parser.add_argument("--dataset", help="start, best and sweep: ID of the dataset; by default the agent's newest")
        parser.add_argument("--heldout", help="best: ID of labelled rows to compare on; by default the agent's")
        parser.add_argument("--replay", help="best: ID of labelled rows to learn from together with logged ones")
        parser.add_argument(
            "--preset", default="", choices=list(PRESETS), help=f"start and sweep: named settings. {PRESET_HELP}"
        )
        parser.add_argument(
            "--grid",
            default="{}",
            metavar="JSON",
            help='sweep: values to try by setting, such as {"optimiser.learning_rate": [0.001, 0.002]}',
        )
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        workspace = self.find_workspace(options["workspace"])
        agent = None
        if options["agent"] or options["action"] in ("start", "train", "best", "sweep"):
            agent = Agent.objects.for_workspace(workspace).filter(slug=options["agent"] or "").first()
            if agent is None:
                known = ", ".join(Agent.objects.for_workspace(workspace).values_list("slug", flat=True)) or "none"
                self.refuse(f"--agent: name one of: {known}")
        if options["action"] == "list":
            runs = [_as_plain(run) for run in _runs_of(workspace, agent)[:SHOWN]]
            self._tell({"runs": runs}, [_as_line(run) for run in runs], options)
            return
        try:
            if options["action"] == "sweep":
                assert agent is not None
                self._sweep(workspace, agent, options)
                return
            if options["action"] == "train":
                assert agent is not None
                job = start_training(
                    by=system(workspace), agent=agent, base_model=options["base"], lora=options["lora"]
                )
                self._tell_job(job, agent, options)
                return
            if options["action"] == "best":
                assert agent is not None
                self._tell_job(self._start_best(workspace, agent, options), agent, options)
                return
            run = self._act(workspace, agent, options)
        except ReckonerError as error:
            faults = "; ".join(f"{fault.field}: {fault.reason}" for fault in error.faults)
            self.stderr.write(f"{error.message} {faults}".strip())
            sys.exit(EXIT_NOT_DONE)
        plain = _as_plain(_runs_of(workspace, None).get(pk=run.pk))
        self._tell(plain, [_as_line(plain)], options)

    def _act(self, workspace: Workspace, agent: Agent | None, options: dict[str, Any]) -> TrainingRun:
        by = system(workspace)
        if options["action"] == "start":
            assert agent is not None
            return start_default_run(by=by, agent=agent, wanted=self._read_wanted(workspace, options))
        run = self._find(workspace, agent, options["run"])
        if options["action"] == "stop":
            cancel_run(by=by, run=run)
        if options["action"] == "switch":
            switch_to_run(by=by, run=run)
        return run

    def _start_best(self, workspace: Workspace, agent: Agent, options: dict[str, Any]) -> Job:
        """Raises InvalidRun."""
        by = system(workspace)
        rows = {name: self._read_dataset(workspace, name, options) for name in ("dataset", "heldout", "replay")}
        plan, other = plan_best(by=by, agent=agent, **rows)
        limits = Limits(
            minutes=options["minutes"],
            budget=options["budget"],
            kinds=[PolicyKind(kind) for kind in options["kinds"]],
            retire_others=options["retire_others"],
        )
        return start_best(by=by, agent=agent, plan=plan, other=other, limits=limits)

    def _tell_job(self, job: Job, agent: Agent, options: dict[str, Any]) -> None:
        plain = {"job": str(job.id), "agent": agent.slug, "name": job.payload["name"], "state": job.state}
        self._tell(plain, ["{job}  {name}  {state}".format(**plain)], options)

    def _sweep(self, workspace: Workspace, agent: Agent, options: dict[str, Any]) -> None:
        """Raises InvalidRun."""
        by, grid = system(workspace), self._read_object("--grid", options["grid"])
        plan = find_default_plan(by=by, agent=agent, wanted=self._read_wanted(workspace, options))
        tag, started = start_sweep(by=by, agent=agent, plan=plan, grid=grid)
        runs = [_as_plain(run) | {"notes": run.notes} for run in started]
        lines = [tag, *(f"{_as_line(run)}  {run['notes']}" for run in runs)]
        self._tell({"tag": tag, "runs": runs}, lines, options)

    def _read_wanted(self, workspace: Workspace, options: dict[str, Any]) -> Wanted:
        dataset = self._read_dataset(workspace, "dataset", options)
        return Wanted(dataset, options["preset"], self._read_object("--set", options["changes"]))

    def _read_dataset(self, workspace: Workspace, name: str, options: dict[str, Any]) -> DatasetSnapshot | None:
        if not options[name]:
            return None
        try:
            pk = uuid.UUID(options[name])
        except ValueError:
            pk = None
        dataset = DatasetSnapshot.objects.for_workspace(workspace).select_related("agent").filter(pk=pk).first()
        if dataset is None:
            self.refuse(f"--{name}: {options[name]!r} is not the id of a dataset here")
        return dataset

    def _read_object(self, name: str, text: str) -> dict[str, Any]:
        try:
            told = json.loads(text)
        except (ValueError, RecursionError) as error:
            self.refuse(f"{name}: {error}")
        if not isinstance(told, dict):
            self.refuse(f"{name}: give a JSON object")
        return told

    def _find(self, workspace: Workspace, agent: Agent | None, name: str) -> TrainingRun:
        runs = _runs_of(workspace, agent)
        try:
            found = runs.first() if name == LATEST else runs.filter(pk=uuid.UUID(name)).first()
        except ValueError:
            found = None
        if found is None:
            self.refuse(f"run: {name!r} is not the id of a run here")
        return found

    def _tell(self, plain: dict[str, Any], lines: list[str], options: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(plain) if options["json"] else "\n".join(lines) or "There are no runs.")


def _runs_of(workspace: Workspace, agent: Agent | None) -> Any:
    runs = TrainingRun.objects.for_workspace(workspace).select_related(
        "agent", "produced_version__registered_model", "base_version__registered_model", "base_version__artifact"
    )
    return (runs.filter(agent=agent) if agent is not None else runs).order_by("-id")


def _as_plain(run: TrainingRun) -> dict[str, Any]:
    left = estimate_left(run)
    return {
        "run": str(run.pk),
        "agent": run.agent.slug,
        "method": run.method,
        "base": str(run.base_version or run.base_model),
        "base_model": find_base_name(run),
        "state": run.state,
        "progress": run.progress,
        "message": run.message,
        "left_seconds": round(left.total_seconds()) if left is not None else None,
        "version": str(run.produced_version) if run.produced_version is not None else None,
        "error": run.error,
        "estimate": run.estimate or None,
        "created_at": timezone.localtime(run.created_at).isoformat(timespec="seconds"),
    }


def _as_line(run: dict[str, Any]) -> str:
    left = f", {run['left_seconds']} s left" if run["left_seconds"] is not None else ""
    says = run["version"] or run["error"] or run["message"]
    under = f" ({run['base_model']})" if run["base_model"] not in ("", run["base"]) else ""
    what = f"{run['agent']} {run['method']} from {run['base']}{under}"
    return f"{run['run']}  {what}  {run['state']} {run['progress']:.0%}{left}  {says}".rstrip()
