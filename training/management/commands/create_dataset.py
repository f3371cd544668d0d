"""`manage.py create_dataset`: freezes an agent's rewarded decisions, or people's labels of them, as a dataset now."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from decisions.models import Agent, AgentVersion
from training.datasets.freezing import find_faults, find_other_faults, freeze_rows
from training.errors import EmptyDataset
from training.management.filters import add_filters, read_filters
from training.models import LEDGER_KINDS, DatasetKind, DatasetSnapshot
from training.rows.labels import LEAST_CONFIDENCE
from training.rows.selection import Filters
from workspaces.access.actors import system
from workspaces.commands import UncheckedCommand

EXIT_EMPTY, EXIT_BAD_INPUT = 1, 2


class Command(UncheckedCommand):
    help = (
        "Freezes an agent's rewarded decisions (logged, or text where its actions are texts), people's labels as right "
        "answers (labelled) or their corrections as pairs (preferences) as a dataset. Exit codes: 0 made, 1 nothing "
        "makes a row, 2 an argument is invalid."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", required=True, help="slug of the agent")
        parser.add_argument("--name", required=True, help="name of the dataset")
        parser.add_argument(
            "--kind",
            choices=[kind.value for kind in LEDGER_KINDS],
            default=DatasetKind.LOGGED.value,
            help="kind of its rows",
        )
        parser.add_argument("--agent-version", type=int, help="only decisions by this version; all by default")
        parser.add_argument(
            "--suggestions", action="store_true", help="for labels: also make rows from the auto-labeler's suggestions"
        )
        parser.add_argument(
            "--least-confidence",
            type=float,
            default=LEAST_CONFIDENCE,
            help="lowest confidence of such a suggestion, from 0 to 1",
        )
        add_filters(parser)
        parser.add_argument(
            "--held-out", type=float, help="about this share of the rows, up to 0.5, becomes a second dataset"
        )
        parser.add_argument(
            "--reward-spec",
            type=int,
            help="for rewarded decisions: rewards by this version of the reward spec; by default the newest",
        )
        parser.add_argument(
            "--synthetic-negatives",
            action="store_true",
            help="add rows for wrong actions that nobody took, marked as synthetic",
        )
        parser.add_argument("--workspace", help="slug; optional if only one agent has this slug")
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
        filters = read_filters(options)
        wrong = find_faults(options["kind"], filters, held_out=options["held_out"], suggestions=options["suggestions"])
        if found:
            negatives, spec = options["synthetic_negatives"], options["reward_spec"]
            wrong += find_other_faults(found[0], options["kind"], negatives=negatives, reward_spec=spec)
        faults += [f"--{fault.field.replace('_', '-')}: {fault.reason}; {fault.expected}" for fault in wrong]
        if not 0.0 <= options["least_confidence"] <= 1.0:  # NaN too
            faults.append(f"--least-confidence: {options['least_confidence']} is not from 0 to 1")
        if faults:
            self.stderr.write("\n".join(faults))
            sys.exit(EXIT_BAD_INPUT)
        try:
            made = self._make(found[0], version, filters, options)
        except EmptyDataset as error:
            self.stderr.write(f"{error.message} {'; '.join(fault.reason for fault in error.faults)}.")
            sys.exit(EXIT_EMPTY)
        dataset = made[0]
        if options["json"]:
            told = {"dataset": str(dataset.id), "rows": dataset.rows, "statistics": dataset.statistics}
            self.stdout.write(json.dumps(told))
            return
        self.stdout.write(f"dataset {dataset.id}: {dataset.rows} rows")
        for held_out in made[1:]:
            self.stdout.write(f"held out {held_out.id}: {held_out.rows} rows")

    def _make(
        self, agent: Agent, version: AgentVersion | None, filters: Filters, options: dict[str, Any]
    ) -> list[DatasetSnapshot]:
        made: list[DatasetSnapshot] = []
        freeze_rows(
            by=system(agent.workspace),
            agent=agent,
            name=options["name"],
            kind=DatasetKind(options["kind"]),
            agent_version=version,
            unused_at=timezone.now() if options["only_new"] else None,
            least_confidence=options["least_confidence"] if options["suggestions"] else None,
            filters=filters,
            held_out=options["held_out"],
            negatives=options["synthetic_negatives"],
            reward_spec=agent.reward_specs.get(number=spec) if (spec := options["reward_spec"]) is not None else None,
            on_made=made.extend,
        )
        return made
