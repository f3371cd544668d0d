"""`manage.py company_run`: runs a task of TheAgentCompany in its Docker image, by an agent that the operator names."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import msgspec
from django.core.management.base import CommandParser

from training.engine.environments.agent_company import CompanyTask, Lack, read_folder
from training.engine.environments.agent_company_docker import VERSION, Ran, Setting, find_missing, plan, run
from training.engine.environments.agent_company_docker import Command as Planned
from training.engine.environments.protocol import EnvironmentFault
from workspaces.commands import UncheckedCommand

EXIT_NOT_TRAINABLE, EXIT_FAULT = 1, 3


class Command(UncheckedCommand):
    help = (
        "Runs a task of TheAgentCompany in its Docker image, with an agent that asks an OpenAI-compatible model, and "
        "grades the result. With --plan it shows what would be run. Exit codes: 0 graded, or with --plan nothing is "
        "missing; 1 graded, but an evaluator failed (each is named, nothing may learn from the grade); 2 something is "
        "missing or invalid (all of it is named, nothing is run); 3 the container failed, so there is no grade."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("task", type=Path, help="the task's folder")
        parser.add_argument("--agent", required=True, help="the agent's program with its arguments, as one text")
        parser.add_argument("--base-url", required=True, help="address of the agent's model, such as …/v1")
        parser.add_argument("--model", required=True, help="the model's name at this address")
        parser.add_argument(
            "--key-variable", default="OPENAI_API_KEY", help="variable with its key (default: %(default)s)"
        )
        parser.add_argument(
            "--outputs", type=Path, required=True, help="where a folder with trajectory, result and logs is written"
        )
        parser.add_argument(
            "--services", default="http://localhost:2999", help="address of the services' server (default: %(default)s)"
        )
        parser.add_argument(
            "--hostname",
            default="localhost",
            help="host name of that server inside the container (default: %(default)s)",
        )
        parser.add_argument("--image", help="image to use instead of the benchmark's image of the task")
        parser.add_argument(
            "--image-version", default=VERSION, help="version of the benchmark's image (default: %(default)s)"
        )
        parser.add_argument(
            "--agent-seconds", type=float, default=3600.0, help="time limit of the agent (default: 3600)"
        )
        parser.add_argument("--plan", action="store_true", help="only show what would be run")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        task = read_folder(options["task"])
        faults = [] if isinstance(task, CompanyTask) else [str(fault) for fault in task]
        try:
            agent = shlex.split(options["agent"])
        except ValueError as error:
            faults.append(f"--agent: {error}")
        if not options["base_url"].startswith(("http://", "https://")):
            faults.append(f"--base-url: {options['base_url']!r} must begin with http:// or https://")
        if not options["services"].startswith(("http://", "https://")):
            faults.append(f"--services: {options['services']!r} must begin with http:// or https://")
        if not 0 < options["agent_seconds"] <= 86_400:
            faults.append(f"--agent-seconds: {options['agent_seconds']:g} must be above 0, up to 86400")
        if faults or not isinstance(task, CompanyTask):
            self.refuse("\n".join(faults))
        setting = Setting(
            outputs=options["outputs"],
            agent=agent,
            base_url=options["base_url"],
            model=options["model"],
            key_variable=options["key_variable"],
            services=options["services"].rstrip("/"),
            hostname=options["hostname"],
            image=options["image"],
            version=options["image_version"],
            agent_seconds=options["agent_seconds"],
        )
        missing = find_missing(task, setting)
        if options["plan"]:
            self._show(plan(task, setting), missing, options["json"])
        if missing:
            self.refuse("\n".join(f"{lack.kind}: {lack.reason}" for lack in missing))
        if options["plan"]:
            return
        try:
            ran = run(task, setting)
        except EnvironmentFault as fault:
            self.stderr.write(str(fault))
            sys.exit(EXIT_FAULT)
        self._report(ran, options["json"])

    def _show(self, commands: list[Planned], missing: list[Lack], as_json: bool) -> None:
        if as_json:
            told = [{**one._asdict(), "arguments": list(one.arguments)} for one in commands]
            self.stdout.write(json.dumps({"plan": told, "missing": [lack._asdict() for lack in missing]}))
            return
        for one in commands:
            passed = f"  [with {', '.join(one.variables)}]" if one.variables else ""
            self.stdout.write(f"{one.name:<7} {shlex.join(one.arguments)}{passed}")

    def _report(self, ran: Ran, as_json: bool) -> None:
        grade = ran.grade
        if as_json:
            told = msgspec.to_builtins(grade) | {"full": grade.full, "trainable": grade.trainable}
            self.stdout.write(json.dumps({"grade": told, "agent": ran.agent, "folder": str(ran.folder)}))
        else:
            self.stdout.write(f"{grade.points} of {grade.total} points, score {grade.score:.3f}; the agent {ran.agent}")
        for one in grade.checkpoints:
            if one.error is not None:
                self.stderr.write(f"{one.name}: counts as not passed, its evaluator failed: {one.error}")
        if not grade.trainable:
            sys.exit(EXIT_NOT_TRAINABLE)
