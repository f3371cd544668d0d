"""TheAgentCompany's task folders as facts: what a task asks for, what it needs, and why it cannot be graded here.

A folder has task.md, checkpoints.md and dependencies.yml, with scenarios.json where colleagues (NPCs) answer in the
chat. What a checkpoint pays for is decided by its evaluator, a program that runs inside the benchmark's own image; the
public task folders come without it. Everything here is read and nothing is run. No torch.

Source: Xu et al. 2024, "TheAgentCompany: Benchmarking LLM Agents on Consequential Real World Tasks".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from training.engine.environments.agent_company_checkpoints import (
    Asked,
    Checkpoints,
    NoCheckpoints,
    read_checkpoints,
)
from training.engine.environments.grading import Strategy

TASK, CHECKPOINTS, DEPENDENCIES, SCENARIOS, EVALUATOR = (
    "task.md",
    "checkpoints.md",
    "dependencies.yml",
    "scenarios.json",
    "evaluator.py",
)
SERVICES = ("gitlab", "owncloud", "plane", "rocketchat")
MOST_BYTES = 1_000_000
"""Of a file of a task folder. The longest has 15 KB."""
ASKS_A_MODEL = "evaluate_with_llm", "evaluate_chat_history_with_llm", "llm_complete"
"""What evaluators call where a model judges."""


class Colleague(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody of the company who answers in the chat, played by a model: what they know, and how they behave."""

    name: str
    extra_info: str = ""
    strategy_hint: str = ""


class CompanyTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task of the benchmark. `strategy`, `given` and `rules` are what checkpoints.md says of bonuses; the evaluator
    may do more. `points`: the sum of the checkpoints'; `stated_points`: what the text says, where it says it.

    `llm_grader`: whether a model judges a checkpoint; None where neither checkpoints.md nor an evaluator says so.
    `evaluator`: whether the folder brings one. `files`: what else is in it, such as data and reference answers.
    """

    id: str
    domain: str
    text: str
    services: tuple[str, ...]
    colleagues: tuple[Colleague, ...]
    checkpoints: tuple[Asked, ...]
    strategy: Strategy
    given: tuple[int, ...]
    rules: tuple[str, ...]
    stated_points: int | None
    llm_grader: bool | None
    evaluator: bool
    files: tuple[str, ...]

    @property
    def points(self) -> int:
        return sum(one.points for one in self.checkpoints)

    @property
    def needs_npc(self) -> bool:
        return bool(self.colleagues)


class FolderFault(NamedTuple):
    """Why a folder is not imported. `file` is empty where it is the folder itself."""

    folder: str
    file: str
    reason: str

    def __str__(self) -> str:
        return f"{'/'.join(part for part in (self.folder, self.file) if part)}: {self.reason}"


class Lack(NamedTuple):
    """What keeps a task from being graded. `kind`: evaluator, image, services, npc or llm grader."""

    kind: str
    reason: str


class Here(NamedTuple):
    """What an installation has for grading. Reckoner itself has none of it: TheAgentCompany's services and its
    evaluators run in the benchmark's Docker images."""

    services: frozenset[str] = frozenset()
    evaluators: bool = False
    npc: bool = False
    llm_grader: bool = False


NOTHING = Here()


class Wanted(NamedTuple):
    """Filters; None and an empty tuple let everything through. `domains` and `services`: one of them is enough."""

    domains: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    npc: bool | None = None
    llm_grader: bool | None = None
    gradable: bool | None = None


def read_company(folder: Path) -> tuple[list[CompanyTask], list[FolderFault]]:
    """The tasks of all folders in a folder, by name, and every fault of those that cannot be read. Hidden folders and
    files beside the folders are left alone."""
    if not folder.is_dir():
        return [], [FolderFault(str(folder), "", "is not a folder")]
    if (folder / TASK).is_file():
        return [], [FolderFault(str(folder), TASK, "this is one task: give the folder that holds the task folders")]
    tasks, faults = [], []
    for place in sorted(folder.iterdir()):
        if place.name.startswith(".") or not place.is_dir():
            continue
        read = read_folder(place)
        if isinstance(read, CompanyTask):
            tasks.append(read)
        else:
            faults += read
    if not tasks and not faults:
        faults = [FolderFault(str(folder), "", "holds no task folders")]
    return tasks, faults


def read_folder(place: Path) -> CompanyTask | list[FolderFault]:
    """The task of one folder, or all that is wrong with it."""
    return _Folder(place).read()


def why_not_gradable(task: CompanyTask, here: Here = NOTHING) -> tuple[Lack, ...]:
    """Everything that is missing for grading the task with what is here; empty where it can be graded."""
    lacks = []
    if not task.evaluator:
        lacks.append(Lack("evaluator", "the folder has no evaluator"))
    if not here.evaluators:
        lacks.append(Lack("image", "evaluators only run in the benchmark's own image"))
    if missing := sorted(set(task.services) - here.services):
        lacks.append(Lack("services", f"it needs {', '.join(missing)}"))
    if task.needs_npc and not here.npc:
        lacks.append(Lack("npc", f"NPCs need a model that plays them: {len(task.colleagues)}"))
    if task.llm_grader and not here.llm_grader:
        lacks.append(Lack("llm grader", "a checkpoint needs an LLM grader"))
    return tuple(lacks)


def choose(tasks: Iterable[CompanyTask], wanted: Wanted, here: Here = NOTHING) -> list[CompanyTask]:
    """Those that pass all filters, in order."""
    return [
        task
        for task in tasks
        if (not wanted.domains or task.domain in wanted.domains)
        and (not wanted.services or not set(task.services).isdisjoint(wanted.services))
        and wanted.npc in (None, task.needs_npc)
        and wanted.llm_grader in (None, bool(task.llm_grader))
        and wanted.gradable in (None, not why_not_gradable(task, here))
    ]


class _Folder:
    """Reads one task folder and gathers its faults."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.faults: list[FolderFault] = []

    def read(self) -> CompanyTask | list[FolderFault]:
        text = self._read_text(TASK)
        if text is not None and not text.strip():
            self._fault(TASK, "is empty")
        checkpoints, services, colleagues = self._read_checkpoints(), self._read_services(), self._read_colleagues()
        evaluator = self._read_text(EVALUATOR, optional=True)
        if self.faults or text is None or checkpoints is None:
            return self.faults
        asks = checkpoints.asks_a_model or (evaluator is not None and any(name in evaluator for name in ASKS_A_MODEL))
        return CompanyTask(
            id=self.place.name,
            domain=self.place.name.partition("-")[0],
            text=text.strip(),
            services=services,
            colleagues=colleagues,
            checkpoints=checkpoints.asked,
            strategy=checkpoints.strategy,
            given=checkpoints.given,
            rules=checkpoints.rules,
            stated_points=checkpoints.stated_points,
            llm_grader=asks or (None if evaluator is None else False),
            evaluator=evaluator is not None,
            files=tuple(self._other_files()),
        )

    def _fault(self, file: str, reason: str) -> None:
        self.faults.append(FolderFault(self.place.name, file, reason))

    def _read_text(self, file: str, *, optional: bool = False) -> str | None:
        path = self.place / file
        try:
            if path.stat().st_size > MOST_BYTES:
                self._fault(file, f"has more than {MOST_BYTES:,} bytes")
                return None
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            if not optional:
                self._fault(file, "is missing")
        except UnicodeDecodeError as error:
            self._fault(file, f"is not UTF-8 at byte {error.start}")
        except OSError as error:
            self._fault(file, f"cannot be read: {error.strerror}")
        return None

    def _read_checkpoints(self) -> Checkpoints | None:
        text = self._read_text(CHECKPOINTS)
        try:
            return None if text is None else read_checkpoints(text)
        except NoCheckpoints as error:
            self._fault(CHECKPOINTS, str(error))
            return None

    def _read_services(self) -> tuple[str, ...]:
        """dependencies.yml is a list of services; one that is empty means that the task needs none."""
        text = self._read_text(DEPENDENCIES)
        if text is None:
            return ()
        try:
            found = yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            line = f" at line {mark.line + 1}" if mark is not None else ""
            self._fault(DEPENDENCIES, f"is not valid YAML{line}")
            return ()
        found = [] if found is None else found
        if not isinstance(found, list):
            self._fault(DEPENDENCIES, "must be a list of services")
            return ()
        for one in found:
            if one not in SERVICES:
                name = repr(one[:40]) if isinstance(one, str) else "that is no text"
                self._fault(DEPENDENCIES, f"unknown service {name}; known: {', '.join(SERVICES)}")
        return tuple(one for one in SERVICES if one in found)

    def _read_colleagues(self) -> tuple[Colleague, ...]:
        """scenarios.json is an object of objects, by the colleague's name."""
        text = self._read_text(SCENARIOS, optional=True)
        if text is None:
            return ()
        try:
            found = json.loads(text)
        except json.JSONDecodeError as error:
            self._fault(SCENARIOS, f"is not valid JSON: {error.msg} at line {error.lineno}")
            return ()
        except RecursionError:
            self._fault(SCENARIOS, "is nested too deeply")
            return ()
        if not isinstance(found, dict):
            self._fault(SCENARIOS, "must be an object with a scenario by each colleague's name")
            return ()
        return tuple(one for name, said in found.items() if (one := self._read_colleague(name, said)) is not None)

    def _read_colleague(self, name: str, said: Any) -> Colleague | None:
        try:
            return msgspec.convert({"name": name, **said}, Colleague)
        except (msgspec.ValidationError, TypeError):
            self._fault(SCENARIOS, f"{name}: must be an object with only the texts extra_info and strategy_hint")
            return None

    def _other_files(self) -> Iterator[str]:
        known = {TASK, CHECKPOINTS, DEPENDENCIES, SCENARIOS, EVALUATOR}
        for path in sorted(self.place.rglob("*")):
            if path.is_file() and (name := path.relative_to(self.place).as_posix()) not in known:
                yield name
