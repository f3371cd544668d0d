"""Demonstrations: labelled rows of what a worker does in an environment, for a model to begin with. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from training.engine.environments.agents import ExpertAgent, act_now
from training.engine.environments.registry import find_environment
from training.engine.environments.tasks import Task
from training.engine.rows.types import Labelled


def demonstrate(tasks: Sequence[Task], wrong: float = 0.0, seed: int = 0) -> Iterator[Labelled]:
    """A row for each step of the expert on each task: what it read, what was on offer, what it did. With `wrong` in
    [0, 1] it does so many of its steps at random, and the row says so as any other. Raises EnvironmentFault."""
    worker = ExpertAgent(wrong, seed)
    for task in tasks:
        episode = act_now(worker, find_environment(task.environment)(), task, seed)
        for number, step in enumerate(episode.trajectory):
            if len(step.options) > 1:
                yield Labelled(f"{task.id}/{number}", step.state, step.options, step.action, group=task.group)
