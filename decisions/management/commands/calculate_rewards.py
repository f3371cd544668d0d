"""`manage.py calculate_rewards`: calculates now the rewards that wait for the daily job."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import CommandParser

from decisions.ingest.item_ends import apply_item_outcomes
from decisions.models import AgentKind
from decisions.rewards.judged import list_left_out
from decisions.rewards.pending import Calculated, calculate_pending
from decisions.rewards.specs import find_specs
from workspaces.commands import UncheckedCommand
from workspaces.models import Workspace

EXIT_FAILED_COMPONENTS, EXIT_BAD_INPUT = 1, 2


class Command(UncheckedCommand):
    help = (
        "Calculates all pending rewards. Exit codes: 0 done, 1 some rewards have a failed component, "
        "2 the workspace or the agent is unknown."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--agent-type", choices=AgentKind.values, help="only agents of this kind; all by default")
        parser.add_argument("--workspace", help="slug; all by default")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        workspaces = Workspace.objects.order_by("created_at")
        if options["workspace"]:
            workspaces = workspaces.filter(slug=options["workspace"])
        found = [(workspace, find_specs(workspace, options["agent_type"])) for workspace in workspaces]
        if not any(specs for _, specs in found):
            asked = " ".join(filter(None, [options["workspace"], options["agent_type"]])) or "any agent"
            self.stderr.write(f"No agent matches {asked}. Check --workspace and --agent-type.")
            sys.exit(EXIT_BAD_INPUT)
        processed, errors, left_out = 0, 0, list[dict[str, str]]()
        for workspace, specs in found:
            apply_item_outcomes(workspace=workspace)
            done: Calculated = calculate_pending(specs)
            processed, errors = processed + done.processed, errors + done.errors
            left_out += list_left_out(specs)
        if options["json"]:
            self.stdout.write(json.dumps({"processed": processed, "errors": errors, "judges_left_out": left_out}))
        else:
            self.stdout.write(f"{processed} rewards calculated, {errors} with an error")
            for one in left_out:
                self.stdout.write(f"{one['agent']} in {one['workspace']}: a judge is left out: {one['reason']}")
        if errors:
            sys.exit(EXIT_FAILED_COMPONENTS)
