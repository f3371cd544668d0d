"""What is installed, for the API and pages: each environment with an example of its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from training.engine.environments.protocol import BaseEnvironment, EnvironmentFault
from training.engine.environments.registry import (
    BadEnvironment,
    find_environment,
    find_package,
    known_environments,
)
from training.engine.environments.tasks import Task
from training.environments.drawing import has_expert


@dataclass(frozen=True, slots=True)
class ExampleTask:
    """The first task, of the training split where there is one, and what an agent reads and may do at its beginning."""

    task: Task
    observation: str
    actions: Sequence[str]


@dataclass(frozen=True, slots=True)
class KnownEnvironment:
    """`package`: where it comes from; None for a built-in one. `fault`: why it cannot be used here, "" where it can;
    the other fields are empty then."""

    name: str
    package: str | None
    does: str = ""
    max_steps: int = 0
    most_reward: float = 0.0
    has_demonstrations: bool = False
    example: ExampleTask | None = None
    fault: str = ""


def list_environments() -> list[KnownEnvironment]:
    """By name. Loads the packages that have them."""
    return [describe_environment(name) for name in known_environments()]


def describe_environment(name: str) -> KnownEnvironment:
    """Raises UnknownEnvironment."""
    package = find_package(name)
    try:
        found = find_environment(name)
        example = _find_example(found)
    except (BadEnvironment, EnvironmentFault, ValueError) as error:
        return KnownEnvironment(name, package, fault=str(error))
    return KnownEnvironment(
        name=name,
        package=package,
        does=found.does,
        max_steps=found.max_steps,
        most_reward=found.most_reward,
        has_demonstrations=has_expert(found),
        example=example,
    )


def _find_example(environment: type[BaseEnvironment]) -> ExampleTask:
    """Raises EnvironmentFault, and ValueError for a task that it cannot use itself."""
    task = environment.draw_task(0, environment.splits[0])
    world = environment()
    observation = world.reset(task)
    actions = world.get_valid_actions()
    world.close()
    return ExampleTask(task, observation, actions)
