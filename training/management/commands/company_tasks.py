"""`manage.py company_tasks`: what TheAgentCompany's task folders ask for, and which of them can be graded here."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from django.core.management.base import CommandParser

from training.engine.environments.agent_company import (
    SERVICES,
    CompanyTask,
    FolderFault,
    Wanted,
    choose,
    read_company,
    why_not_gradable,
)
from workspaces.commands import UncheckedCommand

EXIT_FAULTS = 1
ANSWERS = {"yes": True, "no": False}
LACKS = {
    "evaluator": "bring no evaluator, the program that decides what a checkpoint has earned",
    "image": "would need the benchmark's own image, in which evaluators run",
    "services": "need services that do not run here",
    "npc": "need a model that plays their NPCs",
    "llm grader": "need a model that judges a checkpoint, as their text says",
}


class Command(UncheckedCommand):
    help = (
        "Reads TheAgentCompany's task folders and shows domain, points, bonus, services, NPCs, and why a task cannot "
        "be graded here. Runs nothing. Exit codes: 0 all folders were read, 1 some were not (each fault is "
        "named, the other tasks are shown), 2 the folder or a filter is invalid."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="folder with the task folders")
        parser.add_argument("--domain", action="append", default=[], help="only this domain, such as hr; repeatable")
        parser.add_argument(
            "--service", action="append", default=[], choices=SERVICES, help="only tasks that use it; repeatable"
        )
        parser.add_argument(
            "--npc", choices=ANSWERS, help="only tasks with colleagues who answer in the chat, or only those without"
        )
        parser.add_argument(
            "--llm-grader", choices=ANSWERS, help="only tasks whose text says that a model judges, or only the others"
        )
        parser.add_argument("--gradable", action="store_true", help="only tasks that can be graded here")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        tasks, faults = read_company(options["folder"])
        if not tasks:
            self.refuse("\n".join(map(str, faults)))
        domains = {task.domain for task in tasks}
        if unknown := sorted(set(options["domain"]) - domains):
            self.refuse(f"--domain: unknown {', '.join(unknown)}; known: {', '.join(sorted(domains))}")
        wanted = Wanted(
            domains=tuple(options["domain"]),
            services=tuple(options["service"]),
            npc=ANSWERS.get(options["npc"]),
            llm_grader=ANSWERS.get(options["llm_grader"]),
            gradable=True if options["gradable"] else None,
        )
        chosen = choose(tasks, wanted)
        if options["json"]:
            self.stdout.write(json.dumps(as_json(tasks, chosen, faults), ensure_ascii=False))
        else:
            self.stdout.write("\n".join([*(map(as_line, chosen)), *summarise(tasks, chosen)]))
        self.stderr.write("\n".join(map(str, faults)), ending="\n" if faults else "")
        if faults:
            sys.exit(EXIT_FAULTS)


def as_line(task: CompanyTask) -> str:
    needs = [*task.services]
    needs += [f"{len(task.colleagues)} NPC{'s' if len(task.colleagues) > 1 else ''}"] if task.needs_npc else []
    needs += ["LLM grader"] if task.llm_grader else []
    worth = f"{task.points:>3} points in {len(task.checkpoints)}"
    return f"{task.id:<60} {worth}  {task.strategy:<6}  {', '.join(needs) or 'no service'}"


def summarise(tasks: Sequence[CompanyTask], chosen: Sequence[CompanyTask]) -> list[str]:
    """The last lines for people: how many, and what of it can be graded here."""
    lacks = Counter(lack.kind for task in tasks for lack in why_not_gradable(task))
    gradable = sum(not why_not_gradable(task) for task in tasks)
    points, checkpoints = sum(task.points for task in tasks), sum(len(task.checkpoints) for task in tasks)
    return [
        f"{len(chosen)} of {len(tasks)} tasks shown; all have {points} points in {checkpoints} checkpoints.",
        f"{gradable} can be graded here. Of all tasks",
        *(f"{lacks[kind]:>5} {says}" for kind, says in LACKS.items() if lacks[kind]),
    ]


def as_json(
    tasks: Sequence[CompanyTask], chosen: Sequence[CompanyTask], faults: Sequence[FolderFault]
) -> dict[str, Any]:
    told = []
    for task in chosen:
        why_not = [lack.reason for lack in why_not_gradable(task)]
        told.append(msgspec.to_builtins(task) | {"points": task.points, "gradable": not why_not, "why_not": why_not})
    return {
        "read": len(tasks),
        "points": sum(task.points for task in tasks),
        "gradable": sum(not why_not_gradable(task) for task in tasks),
        "tasks": told,
        "faults": [fault._asdict() for fault in faults],
    }
