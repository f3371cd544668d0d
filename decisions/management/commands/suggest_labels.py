"""`manage.py suggest_labels filer`: trains the auto-labeler of an agent now, and suggests labels."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import CommandParser

from decisions.api.serializers.suggestions import AutoLabelerSerializer
from decisions.errors import NothingToSuggest
from decisions.labelling.suggesting import suggest_labels
from decisions.labelling.telling import tell_auto_labeler
from decisions.models import Agent
from workspaces.commands import UncheckedCommand

EXIT_NONE = 1


class Command(UncheckedCommand):
    help = (
        "Trains an agent's auto-labeler on the labels that are there, and suggests labels for what has no verdict. "
        "Exit codes: 0 it suggests labels, 1 it suggests none: the reason is shown, 2 the input is invalid, or nothing "
        "can be suggested for this agent."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("agent", help="slug")
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        workspace = self.find_workspace(options["workspace"])
        agent = Agent.objects.for_workspace(workspace).filter(slug=options["agent"]).first()
        if agent is None:
            self.refuse(f"There is no agent {options['agent']!r} in {workspace.slug}.")
        try:
            made = suggest_labels(agent)
        except NothingToSuggest as error:
            self.refuse(error.message)
        if options["json"]:
            told = AutoLabelerSerializer(made).data | {"agent": agent.slug}
            self.stdout.write(json.dumps(told))
        else:
            self.stdout.write("\n".join(tell_auto_labeler(made)))
        if not made.suggested:
            sys.exit(EXIT_NONE)
