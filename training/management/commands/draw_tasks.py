"""`manage.py draw_tasks`: draws an environment's tasks as datasets now."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandParser

from decisions.models import Agent
from training.environments.drawing import LONGEST_NAME, TaskQuestion, draw_datasets
from training.management.agents import NoSingleAgent, find_agent
from workspaces.access.actors import system
from workspaces.commands import UncheckedCommand
from workspaces.errors import InvalidInput

_BY_DEFAULT = TaskQuestion(environment="")


class Command(UncheckedCommand):
    help = (
        "Draws tasks of an environment as a dataset to learn from, tasks of its held-out split as another to measure"
        " on and, with --demonstrations, solves further tasks as labelled rows, from which pretrain makes a first"
        " model. Exit codes: 0 drawn, 2 an argument is invalid (every fault is named; nothing is made)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("environment", help="name of an environment that is installed, such as equations")
        parser.add_argument("--agent", required=True, help="slug of the agent whose model learns")
        parser.add_argument("--name", help="name of the datasets (default: the environment's name)")
        parser.add_argument(
            "--tasks", type=int, default=_BY_DEFAULT.tasks, help="tasks to learn from (default: %(default)s)"
        )
        parser.add_argument("--first", type=int, default=0, help="number of the first task (default: 0)")
        parser.add_argument(
            "--held-out", type=int, default=_BY_DEFAULT.held_out, help="tasks to measure on (default: %(default)s)"
        )
        parser.add_argument(
            "--demonstrations", type=int, default=0, help="number of further tasks that are demonstrated (default: 0)"
        )
        parser.add_argument(
            "--wrong",
            type=float,
            default=_BY_DEFAULT.wrong,
            help="share of the demonstrated steps that are random (default: %(default)s)",
        )
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        workspace = self.find_workspace(options["workspace"])
        try:
            agent = find_agent(Agent.objects.for_workspace(workspace).select_related("workspace"), options["agent"])
        except NoSingleAgent as error:
            self.refuse(str(error).replace("--agent-type", "--agent"))
        name = options["name"] if options["name"] is not None else options["environment"]
        if not 1 <= len(name) <= LONGEST_NAME:
            self.refuse(f"--name: has {len(name)} characters; 1 to {LONGEST_NAME} are allowed")
        asked = ("environment", "tasks", "first", "held_out", "demonstrations", "wrong")
        question = TaskQuestion(**{field: options[field] for field in asked})
        try:
            drawn = draw_datasets(by=system(workspace), agent=agent, name=name, question=question)
        except InvalidInput as error:
            self.refuse("\n".join(f"{_flag(one.field)}: {one.reason}; {one.expected}" for one in error.faults))
        if options["json"]:
            self.stdout.write(json.dumps(drawn.as_plain()))
            return
        self.stdout.write(f"dataset {drawn.tasks.id}: {drawn.tasks.rows} tasks")
        if drawn.held_out is not None:
            self.stdout.write(f"held out {drawn.held_out.id}: {drawn.held_out.rows} tasks")
        if drawn.demonstrations is not None:
            self.stdout.write(f"demonstrations {drawn.demonstrations.id}: {drawn.demonstrations.rows} rows")


def _flag(field: str) -> str:
    return field if field == "environment" else f"--{field.replace('_', '-')}"
