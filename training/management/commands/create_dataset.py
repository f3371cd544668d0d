"""`manage.py create_dataset`: freezes an agent's rewarded decisions, or people's labels of them, as a dataset now."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from decisions.models import Agent, AgentVersion
from training.datasets import snapshot_ledger
from training.errors import EmptyDataset
from training.label_datasets import snapshot_labels
from training.label_rows import LEAST_CONFIDENCE, LabelQuestion
from training.models import DatasetKind, DatasetSnapshot
from workspaces.actors import system
from workspaces.commands import UncheckedCommand

EXIT_EMPTY, EXIT_BAD_INPUT = 1, 2


class Command(UncheckedCommand):
    help = (
        "Freezes an agent's rewarded decisions (logged), people's labels as right answers (labelled) or their "
        "corrections as pairs (preferences) as a dataset. Exit codes: 0 made, 1 nothing makes a row, 2 an argument is "
        "invalid."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", required=True, help="slug of the agent")
        parser.add_argument("--name", required=True, help="what the dataset is called")
        parser.add_argument("--kind", choices=DatasetKind.values, default=DatasetKind.LOGGED.value, help="of its rows")
        parser.add_argument("--agent-version", type=int, help="only decisions by this version; all by default")
        parser.add_argument("--only-new", action="store_true", help="only decisions that no run has learnt from")
        parser.add_argument(
            "--suggestions", action="store_true", help="of labels: the auto-labeler's suggestions make rows, too"
        )
        parser.add_argument(
            "--least-confidence", type=float, default=LEAST_CONFIDENCE, help="of such a suggestion, from 0 to 1"
        )
        parser.add_argument("--workspace", help="slug; may be left out where one agent only has this slug")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        agents = Agent.objects.filter(slug=options["agent"]).select_related("workspace")
        if options["workspace"]:
            agents = agents.filter(workspace__slug=options["workspace"])
        found = list(agents[:2])
        faults = [] if len(found) == 1 else [f"--agent: {len(found)} agents are called {options['agent']!r}; name one"]
        number = options["agent_version"]
        version = found[0].versions.filter(number=number).first() if found and number is not None else None
        if found and number is not None and version is None:
            faults.append(f"--agent-version: {found[0].slug} has no version {number}")
        if not 1 <= len(options["name"]) <= 200:
            faults.append(f"--name: has {len(options['name'])} characters; 1 to 200 are allowed")
        if options["suggestions"] and options["kind"] == DatasetKind.LOGGED:
            faults.append("--suggestions: given with rewarded decisions; only with labelled or preferences")
        if not 0.0 <= options["least_confidence"] <= 1.0:  # NaN too
            faults.append(f"--least-confidence: {options['least_confidence']} is not from 0 to 1")
        if faults:
            self.stderr.write("\n".join(faults))
            sys.exit(EXIT_BAD_INPUT)
        try:
            dataset = self._make(found[0], version, options)
        except EmptyDataset as error:
            self.stderr.write(f"{error.message} {'; '.join(fault.reason for fault in error.faults)}.")
            sys.exit(EXIT_EMPTY)
        if options["json"]:
            told = {"dataset": str(dataset.id), "rows": dataset.rows, "statistics": dataset.statistics}
            self.stdout.write(json.dumps(told))
        else:
            self.stdout.write(f"dataset {dataset.id}: {dataset.rows} rows")

    def _make(self, agent: Agent, version: AgentVersion | None, options: dict[str, Any]) -> DatasetSnapshot:
        by = system(agent.workspace)
        unused_at = timezone.now() if options["only_new"] else None
        if options["kind"] == DatasetKind.LOGGED:
            return snapshot_ledger(by=by, agent=agent, name=options["name"], agent_version=version, unused_at=unused_at)
        least = options["least_confidence"] if options["suggestions"] else None
        question = LabelQuestion(options["kind"], version, unused_at, least)
        return snapshot_labels(by=by, agent=agent, name=options["name"], question=question)
