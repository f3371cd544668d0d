"""Which tasks a step of training acts on: epoch by epoch in random order, or by the spec's curriculum.

A task is seldom visited twice, so a curriculum measures the success of its template: the share of the template's
episodes that the weights in training solved when they last acted on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

import torch
from torch import Tensor

from training.engine.attempt.attempt import Attempt
from training.engine.data.reading import Batches
from training.engine.environments.tasks import Task
from training.engine.methods.curriculum import Order
from training.engine.updates.fit import Metrics, kept_from


class TaskOrder:
    """The tasks of each step. `kept` belongs into the checkpoint."""

    def __init__(self, attempt: Attempt, tasks: Sequence[Task], start: Mapping[str, float]) -> None:
        """`start`: by template, the share of episodes that the starting policy solved; read with a curriculum only."""
        spec, settings = attempt.spec, attempt.spec.online
        self._batches = Batches([0] * len(tasks), settings.prompts_per_step, spec.seed)
        self._tasks_of: defaultdict[str, list[int]] = defaultdict(list)
        for place, task in enumerate(tasks):
            self._tasks_of[task.group].append(place)
        self._order: Order | None = None
        self.kept: Mapping[str, Tensor] = {}
        if settings.curriculum is not None:
            self._order = Order(
                settings.curriculum,
                torch.tensor([start[task.group] for task in tasks]),
                batch_size=settings.prompts_per_step,
                group=settings.group,
                steps=settings.steps,
                seed=spec.seed,
            )
            self.kept = self._order.state
            for name, value in self.kept.items():
                if (earlier := kept_from(attempt, name)) is not None:
                    value.copy_(earlier)

    def at(self, step: int) -> list[int]:
        """Places of the step's tasks."""
        return self._batches.at(step) if self._order is None else self._order.at(step)

    def note(self, solved: Mapping[str, float]) -> Metrics:
        """What the curriculum learns and reports; `solved` by template, of this step's episodes."""
        if self._order is None or not solved:
            return {}
        places = [place for group in solved for place in self._tasks_of[group]]
        shares = [share for group, share in solved.items() for _ in self._tasks_of[group]]
        return {**self._order.note(places, torch.tensor(shares)), "success": torch.tensor(fmean(solved.values()))}
