"""`manage.py pipeline`: from an agent's decisions to an evaluated, exported and, where asked for, deployed version."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from typing import Any, NoReturn

from django.core.management.base import CommandParser
from rich.console import Console

from decisions.models import Agent
from jobs.following import EXIT_INTERRUPTED
from jobs.models import Job, JobState
from models_registry.backends.model_server import is_reachable
from training.engine.spec.export_formats import QUANTISATIONS
from training.engine.spec.methods import HELP, RowKind
from training.errors import InvalidPipeline, PipelineFailed
from training.exports.ollama import LOCAL
from training.loops.pipeline.plan import DEPLOYMENTS, FIELD_OF, HELD_OUT_SHARE, PipelinePlan
from training.loops.pipeline.services import (
    find_agent,
    find_pipelines,
    follow_pipeline,
    resume_pipeline,
    start_pipeline,
)
from training.management.filters import add_filters, read_filters
from training.rows.selection import Filters
from workspaces.access.actors import system
from workspaces.commands import EXIT_BAD_INPUT, UncheckedCommand
from workspaces.errors import FieldFault

EXIT_NOT_DEPLOYED, EXIT_NO_RESULT = 1, 3
FLAGS = (
    "agent", "method", "model", "rows", "held_out", "deploy", "deploy_ollama", "quantization", "ollama_host", "resume",
    "set",
)  # fmt: skip
OTHER_NAMES = FIELD_OF | {"quantisation": "quantization"}
"""Flags by the names that faults give to the same."""
PLANNED = ("model", "rows", "only_new", "held_out", "deploy", "deploy_ollama", "ollama_host")
"""What is a field of the plan as it is."""


class Command(UncheckedCommand):
    help = (
        "Runs the whole loop at once: brings an agent's rewards up to date, freezes its decisions, trains on them, "
        "evaluates and exports the new version and, with --deploy, tries it on live traffic or promotes it where the "
        "evidence allows that; with --deploy-ollama it makes a model of it in Ollama. Needs a running instance (make "
        "run), which finishes it if this command is detached. "
        "Exit codes: 0 done, and deployed if asked; 1 done, but the evidence does not allow the deployment; 2 an "
        "argument is invalid (every fault is named, nothing is started); 3 it ended before its last stage; 130 "
        "interrupted and cancelled; --resume continues it with the same rows."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", required=True, help="slug of the agent")
        parser.add_argument("--method", help=HELP)
        parser.add_argument(
            "--model",
            default="",
            help="what to train: a version such as filer:3, a hub id or folder that RECKONER_BASE_MODELS allows, or "
            "tiny (pretrain only); by default the champion",
        )
        parser.add_argument(
            "--rows", default="", help=f"one of: {', '.join(RowKind)}; by default what fits the method and the agent"
        )
        add_filters(parser)
        parser.add_argument(
            "--held-out",
            type=float,
            default=HELD_OUT_SHARE,
            help="share of the rows that the run does not learn from, up to 0.5 (default: %(default)s)",
        )
        parser.add_argument(
            "--set", dest="changes", default="{}", metavar="JSON", help="fields of the spec as JSON, over the defaults"
        )
        parser.add_argument(
            "--deploy", default="", help=f"{' or '.join(DEPLOYMENTS)}, where the evidence allows it; by default neither"
        )
        parser.add_argument(
            "--deploy-ollama", action="store_true", help="at the end, make a model in Ollama from its GGUF"
        )
        parser.add_argument(
            "--quantization",
            choices=QUANTISATIONS,
            default="",
            help="quantisation of that GGUF; by default the one recommended for this machine's memory",
        )
        parser.add_argument(
            "--ollama-host",
            default="",
            help=f"the server's address as workers reach it (OLLAMA_HOST, else {LOCAL}); only with --deploy-ollama",
        )
        parser.add_argument(
            "--resume", action="store_true", help="resume the agent's newest pipeline that was cancelled or died"
        )
        parser.add_argument("--detach", action="store_true", help="start it and do not wait")
        parser.add_argument("--workspace", default="", help="slug; optional if only one agent has this slug")
        parser.add_argument("--json", action="store_true", help="the report as one JSON line on standard output")

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            agent = find_agent(options["agent"], options["workspace"])
            job = self._resume(agent) if options["resume"] else self._start(agent, options)
        except InvalidPipeline as error:
            self._refuse(error, options)
        if options["detach"]:
            told = {"pipeline": job.payload["pipeline"], "job": str(job.id)}
            self.stdout.write(json.dumps(told) if options["json"] else f"{told['pipeline']} is queued.")
            return
        if not is_reachable():
            self.stderr.write("The model server does not answer. The pipeline waits for an instance (make run).", str)
        try:
            report = follow_pipeline(job, console=Console(stderr=True, highlight=False))
        except KeyboardInterrupt:
            self._end("Cancelled. Use --resume to continue it with the same rows.", EXIT_INTERRUPTED, options)
        except PipelineFailed as error:
            self._end(str(error), EXIT_NO_RESULT, options)
        self._report(report, options)

    def _start(self, agent: Agent, options: dict[str, Any]) -> Job:
        """Raises InvalidPipeline."""
        faults = []
        changes: Any = {}
        try:
            changes = json.loads(options["changes"])
        except (ValueError, RecursionError) as error:
            faults.append(FieldFault("set", str(error), "a JSON object"))
        if not isinstance(changes, dict):
            faults.append(FieldFault("set", "is not a JSON object", "fields of the spec"))
        plan = PipelinePlan(
            **{name: options[name] for name in PLANNED},
            method=options["method"] or "",
            quantisation=options["quantization"],
            filters=read_filters(options),
            settings=changes if isinstance(changes, dict) else {},
        )
        if faults:
            raise InvalidPipeline("The pipeline cannot start.", faults=faults)
        return start_pipeline(by=system(agent.workspace), agent=agent, plan=plan)

    def _resume(self, agent: Agent) -> Job:
        """The newest one of the agent, as a new job; one that is under way is only followed. Raises InvalidPipeline."""
        newest = find_pipelines(agent.workspace).filter(payload__agent=agent.slug).first()
        if newest is None or newest.state == JobState.SUCCEEDED:
            reason = f"the newest pipeline of {agent.slug} is done" if newest else f"{agent.slug} has had no pipeline"
            fault = FieldFault("resume", reason, "leave it out to start a new one")
            raise InvalidPipeline("There is nothing to resume.", faults=[fault])
        if newest.state in (JobState.QUEUED, JobState.RUNNING):
            return newest
        return resume_pipeline(by=system(agent.workspace), job=newest)

    def _refuse(self, error: InvalidPipeline, options: dict[str, Any]) -> NoReturn:
        says = [_tell(fault) for fault in error.faults]
        if options["json"]:
            self.stdout.write(json.dumps({"error": "invalid", "faults": says}, ensure_ascii=False))
        self.stderr.write("\n".join(says))
        sys.exit(EXIT_BAD_INPUT)

    def _end(self, reason: str, code: int, options: dict[str, Any]) -> NoReturn:
        if options["json"]:
            self.stdout.write(json.dumps({"error": reason}, ensure_ascii=False))
        else:
            self.stderr.write(reason)
        sys.exit(code)

    def _report(self, report: dict[str, Any], options: dict[str, Any]) -> None:
        deployment, dataset, export = report["deployment"], report["dataset"], report["export"]
        if options["json"]:
            self.stdout.write(json.dumps(report, ensure_ascii=False))
        else:
            folder = export["folder"] if export is not None else "none: a classifier has no weights to merge"
            lines = [
                f"{report['version']}: {report['method']} on {dataset['rows']:,} {dataset['kind']} rows"
                + (f", from {report['base_model']}" if report["base_model"] else ""),
                f"Export       {folder}",
                f"Evidence     {deployment['because']}",
                f"Deployed     {deployment['done'] or 'no'}; the evidence allows: "
                + (" or ".join(deployment["allowed"]) or "neither experiment nor promotion"),
            ]
            if (made := report["ollama"]) is not None:
                lines.append(f"Ollama       {made['name']} at {made['host']}")
            self.stdout.write("\n".join(lines))
        if deployment["asked"] and deployment["done"] != deployment["asked"]:
            sys.exit(EXIT_NOT_DEPLOYED)


def _tell(fault: FieldFault) -> str:
    """Beside its flag; a field of the spec beside --set."""
    name = OTHER_NAMES.get(fault.field, fault.field)
    if name not in (*FLAGS, *(field.name for field in fields(Filters))):
        where = f"{name.removeprefix('settings.')}: " if name else ""
        return f"--set: {where}{fault.reason}"
    return f"--{name.replace('_', '-')}: {fault.reason}; expected: {fault.expected}"
