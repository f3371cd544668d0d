"""`manage.py training_stats FILER`: says whether there are enough decisions to train on."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import CommandParser

from decisions.models import AgentKind
from decisions.queries.readiness import ENOUGH_DECISIONS, ENOUGH_REWARDED, add_up, as_plain, count_training_stats
from workspaces.commands import UncheckedCommand
from workspaces.models import Workspace

EXIT_NOT_READY, EXIT_BAD_INPUT = 1, 2


class Command(UncheckedCommand):
    help = (
        "Counts a kind of agent's decisions, verdicts and rewards. "
        "Exit codes: 0 enough for training, 1 not yet, 2 the workspace or the agent is unknown."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("agent_type", choices=AgentKind.values, help="a kind of agent")
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        workspaces = Workspace.objects.order_by("created_at")
        if options["workspace"]:
            workspaces = workspaces.filter(slug=options["workspace"])
        found = list(workspaces[:2])
        kind = options["agent_type"]
        counted = count_training_stats(found[0], kind) if len(found) == 1 else {}
        if kind not in counted:
            known = ", ".join(Workspace.objects.values_list("slug", flat=True)) or "none"
            self.stderr.write(f"There is no {kind} agent in one workspace; --workspace: name one of: {known}")
            sys.exit(EXIT_BAD_INPUT)
        stats = add_up(counted.values())
        if options["json"]:
            self.stdout.write(json.dumps({"agentType": kind} | as_plain(stats)))
        else:
            average = "none" if stats.average is None else f"{stats.average:.2f}"
            self.stdout.write(
                f"{kind}: {stats.decisions} decisions, {stats.with_verdict} with a verdict, "
                f"{stats.rewarded} with a reward, mean raw reward {average}"
            )
            needed = f"{ENOUGH_DECISIONS} decisions and {ENOUGH_REWARDED} rewards are enough for training"
            self.stdout.write(f"{'Ready' if stats.ready else 'Not ready'}: {needed}")
        if not stats.ready:
            sys.exit(EXIT_NOT_READY)
