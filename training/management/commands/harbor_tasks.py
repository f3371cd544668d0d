"""`manage.py harbor_tasks`: what Harbor's task folders ask for, and which of them can be graded here."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from django.core.management.base import CommandParser

from training.engine.environments.harbor.folders import Fault, HarborTask, read_harbor
from training.engine.environments.harbor.needs import KINDS, own_environment, why_not_gradable
from workspaces.commands import UncheckedCommand

EXIT_FAULTS = 1


class Command(UncheckedCommand):
    help = (
        "Reads Harbor's task folders, names every fault of those that cannot be used, and shows what keeps each of the "
        "others from being graded here. Runs nothing. Exit codes: 0 all folders were read, 1 some were not (each fault "
        "is named, the other tasks are shown), 2 no folder could be read."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="a task folder, or one that holds task folders")
        parser.add_argument("--gradable", action="store_true", help="only tasks that can be graded here")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        tasks, faults = read_harbor(options["folder"])
        if not tasks:
            self.refuse("\n".join(map(str, faults)))
        chosen = [task for task in tasks if not (options["gradable"] and why_not_gradable(task))]
        if options["json"]:
            self.stdout.write(json.dumps(as_json(tasks, chosen, faults), ensure_ascii=False, default=str))
        else:
            self.stdout.write("\n".join([*map(as_text, chosen), *summarise(tasks, chosen)]))
        self.stderr.write("\n".join(map(str, faults)), ending="\n" if faults else "")
        if faults:
            sys.exit(EXIT_FAULTS)


def as_text(task: HarborTask) -> str:
    """A line, and one more for each thing that is missing."""
    name = own_environment(task)
    told = f"environment {name}" if name else f"{len(task.parts)} step{'s' if len(task.parts) > 1 else ''}"
    return "\n".join([f"{task.name:<60} {told}", *(f"    {lack.reason}" for lack in why_not_gradable(task))])


def summarise(tasks: Sequence[HarborTask], chosen: Sequence[HarborTask]) -> list[str]:
    """The last lines for people."""
    lacks = Counter(lack.kind for task in tasks for lack in why_not_gradable(task))
    gradable = sum(not why_not_gradable(task) for task in tasks)
    return [
        f"{len(chosen)} of {len(tasks)} tasks shown; {gradable} can be graded here. Of all tasks",
        *(f"{lacks[kind]:>5} {says}" for kind, says in KINDS.items() if lacks[kind]),
    ]


def as_json(tasks: Sequence[HarborTask], chosen: Sequence[HarborTask], faults: Sequence[Fault]) -> dict[str, Any]:
    told = []
    for task in chosen:
        why_not = [lack.reason for lack in why_not_gradable(task)]
        facts = msgspec.to_builtins(task) | {"environment": own_environment(task)}
        told.append(facts | {"gradable": not why_not, "why_not": why_not})
    return {
        "read": len(tasks),
        "gradable": sum(not why_not_gradable(task) for task in tasks),
        "tasks": told,
        "faults": [fault._asdict() for fault in faults],
    }
