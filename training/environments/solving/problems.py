"""What is to be solved: bodies of the endpoints, and the task that each one means."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from decisions.ingest.schemas import Long, Name
from training.engine.environments.protocol import BaseEnvironment
from training.engine.environments.registry import BadEnvironment, UnknownEnvironment, find_environment
from training.engine.environments.tasks import Task
from training.environments.solving.guarding import guarded
from training.errors import EnvironmentFailed
from workspaces.errors import FieldFault, InvalidInput

MOST_STEPS = 1000
"""Of an episode in a web process, whatever its environment allows."""
Seed = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class TaskIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A whole task, as rows of a dataset of tasks hold it (docs/engine.md#rows)."""

    id: Name
    text: Long
    facts: dict[str, Any] = {}
    domain: Annotated[str, Meta(max_length=200)] = ""
    template: Annotated[str, Meta(max_length=200)] = ""
    level: Annotated[int, Meta(ge=1, le=3)] = 1
    seed: Seed = 0


class SolveIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One problem. Give `problem`, or `task`.

    `problem` is a text that the environment reads, such as `3x + 7 = 16`, or the facts that it sets its world up from,
    and then `text` is what the agent is told. `seed` is that of the environment's own draws, by default the task's.
    `greedy`: the likeliest action is taken at each step; by default one is drawn as the agent's version says.
    `max_steps` ends the episode earlier than its environment would. `unit` is what an experiment sticks to for the
    whole episode, by default the episode itself.
    """

    environment: Name
    problem: Long | dict[str, Any] | None = None
    text: Long | None = None
    task: TaskIn | None = None
    seed: Seed | None = None
    greedy: bool = False
    max_steps: Annotated[int, Meta(ge=1)] | None = None
    unit: Name | None = None
    user_ref: Name | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """A task with the class of its environment. `max_steps`: after so many actions the episode ends."""

    task: Task
    environment: type[BaseEnvironment]
    seed: int
    greedy: bool
    max_steps: int
    unit: str | None
    user_ref: str | None

    @property
    def alike(self) -> tuple[str, str]:
        """Problems with the same value have prompts of one making, and are asked about side by side."""
        return self.task.environment, self.task.group


def read_problem(item: SolveIn) -> Problem:
    """Raises InvalidInput with every fault, EnvironmentFailed where the environment's package cannot be loaded."""
    try:
        environment = find_environment(item.environment)
    except UnknownEnvironment as error:
        known = str(error).partition("known: ")[2]
        fault = FieldFault("environment", f"{item.environment!r} is not installed", known)
        raise InvalidInput("The environment is unknown.", faults=[fault]) from error
    except BadEnvironment as error:
        raise EnvironmentFailed(f"The environment cannot be used: {error}.") from error
    task, faults = _read_task(item, environment)
    most = min(environment.max_steps, MOST_STEPS)
    if item.max_steps is not None and item.max_steps > most:
        reason = f"{item.max_steps} is more than {item.environment} takes"
        faults.append(FieldFault("max_steps", reason, f"1 to {most}"))
    if task is None or faults:
        raise InvalidInput("The problem cannot be used.", faults=faults)
    return Problem(
        task=task,
        environment=environment,
        seed=task.seed if item.seed is None else item.seed,
        greedy=item.greedy,
        max_steps=item.max_steps or most,
        unit=item.unit,
        user_ref=item.user_ref,
    )


def _read_task(item: SolveIn, environment: type[BaseEnvironment]) -> tuple[Task | None, list[FieldFault]]:
    if (item.problem is None) == (item.task is None):
        given = "missing" if item.task is None else "given"
        return None, [FieldFault("problem", f"and task are both {given}", "exactly one of problem and task")]
    if item.text is not None and not isinstance(item.problem, dict):
        return None, [FieldFault("text", "is only for a problem that is given as facts", "none")]
    if item.task is not None:
        task = Task(environment=item.environment, **msgspec.structs.asdict(item.task))
        found = [fault.partition(": ") for fault in task.faults()]
        return task, [FieldFault(f"task.{field}", reason, "a value") for field, _, reason in found]
    if isinstance(item.problem, str):
        return _read_text(item.problem, environment)
    if item.text is None or not item.text.strip():
        return None, [FieldFault("text", "is missing", "the problem as the agent should read it")]
    facts = item.problem or {}
    told = msgspec.json.encode([item.text, facts], order="deterministic")
    name = f"{item.environment[:150]}-{hashlib.sha256(told).hexdigest()[:16]}"
    return Task(id=name, environment=item.environment, text=item.text, facts=facts), []


def _read_text(text: str, environment: type[BaseEnvironment]) -> tuple[Task | None, list[FieldFault]]:
    with guarded(environment.name):
        try:
            return environment.read_problem(text), []
        except ValueError as error:
            return None, [FieldFault("problem", str(error), f"a problem of {environment.name}")]
