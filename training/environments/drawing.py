"""Datasets of an environment's tasks: some to learn from, others to measure on, and demonstrations to begin with.

The page of an environment, the API and `manage.py draw_tasks` ask for them. A job draws them, since an environment may
take its time. Whoever asks names an environment that is installed; no code is ever sent.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from django.db import transaction

from decisions.models import Agent
from jobs.context import JobContext
from jobs.errors import Permanent
from jobs.models import Job
from jobs.services import enqueue_job
from models_registry.artifacts.quota import refuse_over_quota
from models_registry.models import ArtifactKind
from models_registry.versions.services import store_artifact
from training.engine.environments.agents import RandomAgent, act_now
from training.engine.environments.demonstrations import demonstrate
from training.engine.environments.protocol import BaseEnvironment, EnvironmentFault, draw_tasks
from training.engine.environments.registry import (
    BadEnvironment,
    UnknownEnvironment,
    find_environment,
    known_environments,
)
from training.engine.environments.tasks import Task
from training.models import DatasetKind, DatasetSnapshot
from training.rows.parts import HELD_OUT, Part
from workspaces.access.actors import Actor, system
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault, InvalidInput

KIND = "training.draw_tasks"
MOST_TASKS = 50_000
LARGEST_NUMBER = 2**31 - 1
LONGEST_NAME = 200
MOST_NAMED = 50
"""Templates and domains that are counted by name; the rest are counted together."""
SAMPLED = 40
"""Tasks on which a random worker acts once, to see how long observations get."""
DEMONSTRATIONS = " (demonstrations)"


@dataclass(frozen=True, slots=True)
class TaskQuestion:
    """What to draw: `tasks` to learn from, numbered from `first`; `held_out` of the environment's held-out split; and
    of as many further tasks as `demonstrations` each step of a worker who knows the solution, as labelled rows. A share
    of `wrong` of these steps is taken at random, so that a base learns to get out of trouble, too."""

    environment: str
    tasks: int = 960
    first: int = 0
    held_out: int = 300
    demonstrations: int = 0
    wrong: float = 0.15


@dataclass(frozen=True, slots=True)
class Drawn:
    """The datasets of one question; None where nothing was asked for."""

    tasks: DatasetSnapshot
    held_out: DatasetSnapshot | None = None
    demonstrations: DatasetSnapshot | None = None

    def as_plain(self) -> dict[str, Any]:
        told: dict[str, Any] = {"dataset": str(self.tasks.id), "rows": self.tasks.rows}
        if self.held_out is not None:
            told["held_out"] = str(self.held_out.id)
        if self.demonstrations is not None:
            told["demonstrations"] = str(self.demonstrations.id)
        return told


def find_question_faults(question: TaskQuestion) -> list[FieldFault]:
    """Everything that is wrong with it."""
    faults = []
    environment: type[BaseEnvironment] | None = None
    try:
        environment = find_environment(question.environment)
    except UnknownEnvironment as error:
        faults.append(
            FieldFault("environment", f"{error.name[:60]!r} is not installed here", ", ".join(known_environments()))
        )
    except BadEnvironment as error:
        faults.append(FieldFault("environment", str(error), "a package that can be loaded"))
    if environment is not None and "train" not in environment.splits:
        reason = f"{environment.name} has no tasks to learn from: it is for measuring only"
        faults.append(FieldFault("environment", reason, "an environment to learn in"))
    for name, least in (("tasks", 1), ("held_out", 0), ("demonstrations", 0)):
        if not least <= getattr(question, name) <= MOST_TASKS:
            reason = f"{getattr(question, name)} is out of range"
            faults.append(FieldFault(name, reason, f"{least} to {MOST_TASKS}"))
    if environment is not None and not faults:
        faults += _find_count_faults(environment, question)
    if not 0 <= question.first <= LARGEST_NUMBER:
        faults.append(FieldFault("first", f"{question.first} is out of range", f"0 to {LARGEST_NUMBER}"))
    if not 0.0 <= question.wrong <= 1.0:  # NaN too
        faults.append(FieldFault("wrong", f"{question.wrong} is out of range", "0 to 1"))
    if question.demonstrations and environment is not None and not has_expert(environment):
        reason = f"{environment.name} cannot demonstrate its tasks"
        faults.append(FieldFault("demonstrations", reason, "0"))
    return faults


def _find_count_faults(environment: type[BaseEnvironment], question: TaskQuestion) -> Iterator[FieldFault]:
    """Of an environment that has so many tasks and no more."""
    try:
        train, held_out = environment.count_tasks("train"), environment.count_tasks("heldout")
    except EnvironmentFault as error:
        yield FieldFault("environment", str(error), "an environment that works here")
        return
    asked = question.first + question.tasks + question.demonstrations
    if train is not None and asked > train:
        reason = f"tasks and demonstrations up to number {asked} are asked for, and there are {train}"
        yield FieldFault("tasks", reason, f"at most {train} with first and demonstrations")
    if held_out is not None and question.held_out > held_out:
        yield FieldFault("held_out", f"{question.held_out} are asked for, and there are {held_out}", f"0 to {held_out}")


def has_expert(environment: type[BaseEnvironment]) -> bool:
    """Whether somebody has written down what a worker who knows the solution does."""
    return environment.find_expert_action is not BaseEnvironment.find_expert_action


def start_drawing(*, by: Actor, agent: Agent, name: str, question: TaskQuestion) -> Job:
    """Queues the job. Raises InvalidInput with every fault."""
    faults = find_question_faults(question)
    if not 1 <= len(name.strip()) <= LONGEST_NAME:
        faults.append(FieldFault("name", f"has {len(name.strip())} characters", f"1 to {LONGEST_NAME}"))
    if faults:
        raise InvalidInput("The tasks cannot be drawn.", faults=faults)
    payload = {"agent": agent.slug, "name": name.strip(), "requested_by": by.name, "question": asdict(question)}
    return enqueue_job(kind=KIND, workspace=by.workspace, payload=payload)


def draw_datasets_in_job(context: JobContext) -> dict[str, Any] | None:
    """The job ends in the transaction that makes the datasets: a killed attempt leaves none."""
    assert context.workspace is not None
    asked = context.payload
    agent = Agent.objects.for_workspace(context.workspace).select_related("workspace").get(slug=asked["agent"])

    def end(drawn: Drawn) -> None:
        with context.fenced():
            context.complete(drawn.as_plain())

    try:
        draw_datasets(
            by=replace(system(context.workspace), name=asked["requested_by"]),
            agent=agent,
            name=asked["name"],
            question=TaskQuestion(**asked["question"]),
            note_progress=context.note_progress,
            on_made=end,
        )
    except InvalidInput as error:  # what was installed when it was asked for may be gone
        raise Permanent("; ".join(f"{one.field}: {one.reason}" for one in error.faults) or error.message) from error
    return None


def draw_datasets(
    *,
    by: Actor,
    agent: Agent,
    name: str,
    question: TaskQuestion,
    note_progress: Callable[[float, str], None] = lambda fraction, message: None,
    on_made: Callable[[Drawn], None] = lambda drawn: None,
) -> Drawn:
    """Draws the tasks now. Raises InvalidInput with every fault, of the question and of what the environment draws; a
    refusal makes nothing.

    `on_made` is called in the transaction that makes the datasets, and may undo it.
    """
    if faults := find_question_faults(question):
        raise InvalidInput("The tasks cannot be drawn.", faults=faults)
    refuse_over_quota(by.workspace)
    environment = find_environment(question.environment)
    tasks = list(draw_tasks(environment, question.tasks, "train", question.first))
    held_out = list(draw_tasks(environment, question.held_out, "heldout"))
    shown = list(draw_tasks(environment, question.demonstrations, "train", question.first + question.tasks))
    _refuse_unsound([*tasks, *held_out, *shown])
    note_progress(0.5, f"{len(tasks) + len(held_out):,} tasks")
    base = {"agent": agent.slug, "environment": environment.name}
    train = {**base, "split": "train", "first": question.first, "count": len(tasks)}
    measured = {**base, "split": "heldout", "first": 0, "count": len(held_out)}
    demonstrated = {**train, "first": question.first + len(tasks), "count": len(shown), "wrong": question.wrong}
    try:
        longest = {"longest_observation": find_longest_observation(environment, [*tasks, *held_out])}
        if shown:
            note_progress(0.6, f"demonstrations of {len(shown):,} tasks")
        demonstrations = list(demonstrate(shown, question.wrong))
    except (EnvironmentFault, ValueError) as error:
        fault = FieldFault("environment", str(error), "an environment that works")
        raise InvalidInput("The environment does not work here.", faults=[fault]) from error
    with transaction.atomic(), tempfile.TemporaryDirectory(prefix="reckoner-tasks-") as folder:
        place = Path(folder)

        def save(kind: DatasetKind, title: str, rows: Sequence[Any], query: Mapping[str, Any]) -> DatasetSnapshot:
            part = Part(place / (query["split"] if kind == DatasetKind.TASKS else "shown"))
            for row in rows:
                part.write(_plain(row))
            part.close()
            counts = count_tasks(rows) if kind == DatasetKind.TASKS else part.tally.as_plain()
            told = {"kind": kind, "agent": agent.slug, "query": dict(query), "rows": part.tally.rows, "counts": counts}
            artifact = store_artifact(workspace=by.workspace, folder=part.folder, kind=ArtifactKind.DATASET, meta=told)
            dataset = DatasetSnapshot.objects.create(
                workspace=by.workspace,
                agent=agent,
                name=title,
                kind=kind,
                artifact=artifact,
                rows=part.tally.rows,
                query=dict(query),
                statistics=counts | longest,
            )
            details = {"rows": dataset.rows, "environment": environment.name}
            record_audit(by=by, action="dataset.created", target=f"dataset:{dataset.id}", details=details)
            return dataset

        drawn = Drawn(save(DatasetKind.TASKS, name, tasks, train))
        if held_out:
            drawn = replace(drawn, held_out=save(DatasetKind.TASKS, _titled(name, HELD_OUT), held_out, measured))
        if demonstrations:
            titled = _titled(name, DEMONSTRATIONS)
            drawn = replace(drawn, demonstrations=save(DatasetKind.LABELLED, titled, demonstrations, demonstrated))
        _link(drawn)
        on_made(drawn)
    return drawn


def _titled(name: str, ending: str) -> str:
    return name[: LONGEST_NAME - len(ending)] + ending


def _plain(row: Any) -> dict[str, Any]:
    """As the engine reads it, without what a row of this kind lacks."""
    told: dict[str, Any] = msgspec.to_builtins(row)
    return {name: value for name, value in told.items() if value is not None}


def _refuse_unsound(tasks: Sequence[Task]) -> None:
    """Raises InvalidInput."""
    ids = Counter(task.id for task in tasks)
    reasons = [f"task {task.id}: {fault}" for task in tasks for fault in task.faults()]
    reasons += [f"task {name} was drawn {count} times" for name, count in ids.items() if count > 1]
    if reasons:
        faults = [FieldFault("environment", reason, "sound tasks, each once") for reason in reasons[:20]]
        raise InvalidInput("The environment draws tasks that cannot be used.", faults=faults)


def find_longest_observation(environment: type[BaseEnvironment], tasks: Sequence[Task]) -> int:
    """In characters, among those of a worker who acts at random on some of the tasks. Raises EnvironmentFault where
    every episode fails, and ValueError for facts that the environment cannot use."""
    worker = RandomAgent()
    longest, fault = 0, ""
    every = max(1, len(tasks) // SAMPLED)
    for task in tasks[::every]:
        world = environment()
        episode = act_now(worker, world, task)
        world.close()
        fault = episode.fault or fault
        longest = max([longest, *(len(step.state) for step in episode.trajectory)])
    if not longest:
        raise EnvironmentFault(fault or "its observations are empty")
    return longest


def count_tasks(tasks: Sequence[Task]) -> dict[str, Any]:
    """How many there are by template, level and domain, the most frequent first. Of templates and domains at most
    MOST_NAMED are named."""
    counts: dict[str, Any] = {}
    for name, field in (("templates", "template"), ("levels", "level"), ("domains", "domain")):
        found = Counter(str(getattr(task, field)) for task in tasks)
        named = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_NAMED]
        counts[name] = dict(named)
        if others := len(found) - len(named):
            counts[f"other_{name}"] = others
    return counts


def _link(drawn: Drawn) -> None:
    """Each names the others."""
    whole, held_out, shown = drawn.tasks, drawn.held_out, drawn.demonstrations
    if held_out is not None:
        whole.statistics["held_out"] = str(held_out.id)
        held_out.statistics["held_out_of"] = str(whole.id)
    if shown is not None:
        whole.statistics["demonstrations"] = str(shown.id)
        shown.statistics["demonstrates"] = str(whole.id)
    for dataset in (whole, held_out, shown):
        if dataset is not None:
            dataset.save(update_fields=["statistics"])
