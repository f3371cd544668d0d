"""`manage.py import_labelled`: imports inputs with the right answer as a dataset for pretraining, replay and
evaluation.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
from django.core.management.base import CommandParser

from decisions.models import Agent
from training.datasets.snapshots import import_rows
from training.imports.labelled import read_rows
from training.imports.row_files import RowFile, is_labelled
from training.imports.row_lines import find_first, read_row_lines
from training.models import DatasetKind
from workspaces.access.actors import system
from workspaces.commands import UncheckedCommand

EXIT_BAD_INPUT = 2
SHOWN = 20
LONGEST_NAME = 200


class Command(UncheckedCommand):
    help = (
        "Imports JSON lines {prompt, options, answer, id?, system?, group?} as a labelled dataset. "
        "Exit codes: 0 imported, 2 the file or the agent is invalid (every fault is named, nothing is written)."
    )

    def read(self, path: Path) -> tuple[RowFile, list[str]]:
        """The rows, and every fault with its line."""
        rows, faults = read_rows(path)
        first = find_first(read_row_lines(path)[0])
        if faults and first is not None and not is_labelled(first):
            faults = [f"{path}: holds no labelled rows; import_dataset imports rows of other kinds"]
        return RowFile(DatasetKind.LABELLED, [msgspec.to_builtins(row) for row in rows]), faults

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="JSON lines or a JSON list; may be .gz")
        parser.add_argument("--agent", required=True, help="slug of the agent")
        parser.add_argument("--name", required=True, help="name of the dataset")
        parser.add_argument("--workspace", help="slug; optional if only one agent has this slug")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        agents = Agent.objects.filter(slug=options["agent"]).select_related("workspace")
        if options["workspace"]:
            agents = agents.filter(workspace__slug=options["workspace"])
        found = list(agents[:2])
        faults = [] if len(found) == 1 else [f"--agent: {len(found)} agents are called {options['agent']!r}; name one"]
        if not 1 <= len(options["name"]) <= LONGEST_NAME:
            faults.append(f"--name: has {len(options['name'])} characters; 1 to {LONGEST_NAME} are allowed")
        file, row_faults = self.read(options["file"])
        faults += row_faults
        if faults:
            for fault in faults[:SHOWN]:
                self.stderr.write(fault)
            if len(faults) > SHOWN:
                self.stderr.write(f"and {len(faults) - SHOWN} more")
            sys.exit(EXIT_BAD_INPUT)
        dataset = import_rows(
            by=system(found[0].workspace), agent=found[0], name=options["name"], kind=file.kind, rows=file.rows
        )
        for refusal in file.refusals[:SHOWN]:
            self.stderr.write(f"left out: {refusal}")
        if len(file.refusals) > SHOWN:
            self.stderr.write(f"left out: and {len(file.refusals) - SHOWN} more")
        if options["json"]:
            self.stdout.write(json.dumps({"dataset": str(dataset.id), "rows": dataset.rows}))
        else:
            self.stdout.write(f"dataset {dataset.id}: {dataset.rows} rows")
