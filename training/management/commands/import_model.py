"""`manage.py import_model`: a folder of weights becomes a version of an agent's model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from decisions.models import Agent
from models_registry.versions.services import get_champion
from training.management.agents import NoSingleAgent, find_agent
from training.management.commands.evaluate import find_model
from training.supervision.imported import import_model
from workspaces.access.actors import system
from workspaces.commands import UncheckedCommand
from workspaces.errors import InvalidInput, ReckonerError

EXIT_CANNOT_SERVE = 1


class Command(UncheckedCommand):
    help = (
        "Registers a model that was trained in a folder, by manage.py train or elsewhere, as a version of an agent's "
        "model. The first version of an agent becomes champion once the model server has loaded it. Exit codes: 0 "
        "registered; 1 registered, but the model server cannot serve it; 2 the agent or the folder is invalid (every "
        "fault is named, nothing is registered)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "folder", type=Path, help="output folder of train or export_model, or another folder of weights or LoRA"
        )
        parser.add_argument("--agent", required=True, help="kind (FILER, LIBRARIAN, …) or slug of the agent")
        parser.add_argument(
            "--base-model",
            default="",
            help="base of a LoRA folder: a folder or hub id; by default the one that it names",
        )
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        workspace = self.find_workspace(options["workspace"])
        faults: list[str] = []
        agent = None
        try:
            agent = find_agent(Agent.objects.for_workspace(workspace).select_related("workspace"), options["agent"])
        except NoSingleAgent as error:
            faults.append(str(error).replace("--agent-type", "--agent"))
        folder: Path = options["folder"]
        found = find_model(str(folder), options["base_model"], None, faults) if folder.is_dir() else None
        if not folder.is_dir():
            faults.append(f"folder: there is no folder {folder}")
        if faults or found is None or agent is None:
            self.refuse("\n".join(fault.replace("--model: ", "folder: ") for fault in faults))
        base = found.path if found.adapter else ""
        try:
            made = import_model(by=system(workspace), agent=agent, folder=Path(found.adapter or found.path), base=base)
        except InvalidInput as error:
            self.refuse(
                "\n".join(f"{_flag(one.field)}: {one.reason}; expected: {one.expected}" for one in error.faults)
            )
        except ReckonerError as error:
            self.refuse(error.message)
        assert agent.registered_model is not None
        serves = get_champion(agent.registered_model) == made.version if made.fault is None else False
        if options["json"]:
            told = {"version": str(made.version), "id": str(made.version.id), "champion": serves, "fault": made.fault}
            self.stdout.write(json.dumps(told))
        else:
            self.stdout.write(f"{made.version}{', which is champion and serves' if serves else ''}")
        if made.fault is not None:
            self.stderr.write(f"the model server cannot serve it: {made.fault}")
            sys.exit(EXIT_CANNOT_SERVE)


def _flag(field: str) -> str:
    return {"model": "folder", "base_model": "--base-model"}.get(field, field)
