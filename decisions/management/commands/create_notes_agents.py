"""`manage.py create_notes_agents`: the five agents of the notes app in a workspace."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import CommandParser

from decisions.agents.kinds import FIVE
from decisions.agents.services import create_notes_agents
from decisions.models import Agent
from workspaces.access.actors import system
from workspaces.commands import UncheckedCommand
from workspaces.models import Workspace

EXIT_BAD_INPUT = 2


class Command(UncheckedCommand):
    help = "Creates the missing agents of the notes app. Exit codes: 0 created, 2 the workspace is unknown."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        workspaces = Workspace.objects.order_by("created_at")
        if options["workspace"]:
            workspaces = workspaces.filter(slug=options["workspace"])
        found = list(workspaces[:2])
        if len(found) != 1:
            known = ", ".join(Workspace.objects.values_list("slug", flat=True)) or "none"
            self.stderr.write(f"--workspace: name one of: {known}")
            sys.exit(EXIT_BAD_INPUT)
        made = [agent.slug for agent in create_notes_agents(by=system(found[0]))]
        there = Agent.objects.for_workspace(found[0]).filter(kind__in=FIVE).order_by("created_at", "id")
        agents = {agent.kind: agent.slug for agent in reversed(there)}
        if options["json"]:
            self.stdout.write(json.dumps({"made": made, "agents": agents}))
        else:
            for kind in FIVE:
                self.stdout.write(f"{kind}: {agents[kind]}{'' if agents[kind] in made else ' (was there)'}")
