"""`manage.py verifiers_tasks`: the tasks of a taskset of verifiers, and what its rewards say of replies."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from django.core.management.base import CommandParser

from training.engine.environments.verifiers.taskset import HostFailed, Missing, Scored, Taskset, TasksetTask
from workspaces.commands import UncheckedCommand

EXIT_FAILED = 1
MOST_TASKS = 10_000


class Reply(msgspec.Struct, forbid_unknown_fields=True):
    """A line of the file of replies."""

    index: int
    reply: str


class Command(UncheckedCommand):
    help = (
        "Opens a taskset of verifiers with an interpreter that has it, and shows its tasks, their rewards and why a "
        "task cannot be scored by a reply alone; or scores replies. A reward that fails is an error, not a "
        "number. Exit codes: 0 done, 1 a reply could not be scored (each is named, the others are scored), 2 an "
        "argument is invalid or something is missing (all of it is named)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("taskset", help="an installed package, or with --folder a module in it")
        parser.add_argument("--python", type=Path, required=True, help="an interpreter that has verifiers")
        parser.add_argument("--folder", type=Path, help="folder of the taskset's module")
        parser.add_argument("--config", default="{}", help="the taskset's own fields, as a JSON object")
        parser.add_argument(
            "--variable", action="append", default=[], help="environment variable to pass on; repeatable"
        )
        parser.add_argument("--first", type=int, default=0, help="number of the first task shown (default: 0)")
        parser.add_argument("--tasks", type=int, default=20, help="number of tasks shown (default: %(default)s)")
        parser.add_argument(
            "--score", type=Path, metavar="FILE", help="score the replies in this file: JSON lines of index and reply"
        )
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        config, replies = self._check(options)
        try:
            with Taskset(
                options["taskset"],
                options["python"],
                folder=options["folder"],
                config=config,
                variables=options["variable"],
            ) as taskset:
                if replies is None:
                    self._show(taskset, taskset.list_tasks(options["first"], options["tasks"]), options["json"])
                else:
                    self._score(taskset, replies, options["json"])
        except (Missing, HostFailed) as error:
            self.refuse(str(error))

    def _check(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[Reply] | None]:
        faults = []
        try:
            config = json.loads(options["config"])
        except (ValueError, RecursionError) as error:
            config = None
            faults.append(f"--config: {error}")
        else:
            if not isinstance(config, dict):
                faults.append("--config: must be a JSON object")
        if options["first"] < 0:
            faults.append(f"--first: {options['first']} must be 0 or more")
        if not 1 <= options["tasks"] <= MOST_TASKS:
            faults.append(f"--tasks: {options['tasks']} must be 1 to {MOST_TASKS}")
        replies = None
        if options["score"] is not None:
            replies = list(_read_replies(options["score"], faults))
        if faults:
            self.refuse("\n".join(faults))
        return config, replies

    def _show(self, taskset: Taskset, tasks: list[TasksetTask], as_json: bool) -> None:
        if as_json:
            told = [msgspec.to_builtins(task) | {"scorable": not task.lacks} for task in tasks]
            report = {"verifiers": taskset.version, "infinite": taskset.infinite, "tasks": told}
            self.stdout.write(json.dumps(report, ensure_ascii=False))
            return
        for task in tasks:
            weights = ", ".join(f"{name} × {weight:g}" for name, weight in task.weights.items())
            first = (task.text.splitlines() or [""])[0][:80]
            self.stdout.write(f"{task.index:>5} {first}  [{weights}]")
            for lack in task.lacks:
                self.stdout.write(f"      {lack}")
        self.stdout.write(f"{len(tasks)} tasks, {sum(not task.lacks for task in tasks)} can be scored by a reply alone")

    def _score(self, taskset: Taskset, replies: list[Reply], as_json: bool) -> None:
        told = []
        for one in replies:
            try:
                told.append(_as_plain(one.index, taskset.score(one.index, one.reply)))
            except HostFailed as error:
                if not taskset.alive:
                    raise
                told.append({"index": one.index, "reward": None, "error": str(error)})
        failed = [line for line in told if line["reward"] is None]
        if as_json:
            self.stdout.write(json.dumps({"verifiers": taskset.version, "scored": told}, ensure_ascii=False))
        else:
            for line in told:
                self.stdout.write(
                    f"{line['index']:>5} {'–' if line['reward'] is None else format(line['reward'], 'g')}"
                )
        for line in failed:
            self.stderr.write(f"task {line['index']}: {line['error']}")
        if failed:
            sys.exit(EXIT_FAILED)


def _as_plain(index: int, scored: Scored) -> dict[str, Any]:
    error = "; ".join(f"{name}: {why}" for name, why in scored.failed.items()) or None
    reward = None if error else scored.reward
    return {"index": index, "reward": reward, **msgspec.to_builtins(scored), "error": error}


def _read_replies(path: Path, faults: list[str]) -> Iterator[Reply]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        faults.append(f"--score: {path}: {error.strerror}")
        return
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield msgspec.json.decode(line, type=Reply)
            except msgspec.DecodeError as error:
                faults.append(f"{path}:{number}: {error}")
