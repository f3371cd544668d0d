"""What base and trained model made of the same held-out tasks, task by task. PURE.

A task on which an episode of either failed through its environment has no prediction of that model, says nothing, and
is left out of both.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models_registry.statistics.intervals import Interval, clustered_mean, paired_difference

FIELDS: Mapping[str, str] = {"accuracy": "correct", "greedy_success": "greedy_correct"}
"""Measure → field of a prediction, where its name is another."""


@dataclass(frozen=True, slots=True)
class PairedTasks:
    """`predictions`: by model and task, of the tasks that every model acted on; `tasks`: their ids, sorted.

    Measures are `accuracy`, whether a task was solved by the policy that serves, with its exploration,
    `greedy_success`, whether by the likeliest action at each step, and `score`, how much of it was done by the policy
    that serves, in [0, 1].
    """

    tasks: Sequence[str]
    predictions: Mapping[str, Mapping[str, Mapping[str, Any]]]

    @property
    def models(self) -> list[str]:
        return list(self.predictions)

    def tasks_by(self, field: str) -> dict[str, list[str]]:
        """By `domain` or by `group`, which is the template."""
        first = next(iter(self.predictions.values()))
        found: defaultdict[str, list[str]] = defaultdict(list)
        for task in self.tasks:
            found[str(first[task].get(field) or "")].append(task)
        return dict(sorted(found.items()))

    def mean(self, model: str, measure: str, tasks: Sequence[str]) -> Interval:
        """Clustered by template."""
        return clustered_mean(self._values(model, measure, tasks), self._templates(tasks)).within(0.0, 1.0)

    def gain(self, measure: str, tasks: Sequence[str], clusters: Sequence[str] | None = None) -> Interval:
        """Trained minus base, paired; clustered by template, or as `clusters` say."""
        new, old = (self._values(model, measure, tasks) for model in ("trained", "base"))
        alike = self._templates(tasks) if clusters is None else list(clusters)
        return paired_difference(new, old, alike).within(-1.0, 1.0)

    def _values(self, model: str, measure: str, tasks: Sequence[str]) -> list[float]:
        field = FIELDS.get(measure, measure)
        return [float(self.predictions[model][task][field]) for task in tasks]

    def knows(self, measure: str) -> bool:
        """Whether the predictions tell it: those of an older engine tell no greedy success."""
        field = FIELDS.get(measure, measure)
        return all(field in row for of_one in self.predictions.values() for row in of_one.values())

    def _templates(self, tasks: Sequence[str]) -> list[str]:
        first = next(iter(self.predictions.values()))
        return [str(first[task].get("group") or task) for task in tasks]


def read_paired_tasks(path: Path) -> PairedTasks:
    """From a run's predictions. Raises ValueError where no task was acted on without a fault by every model."""
    predictions: defaultdict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    with path.open(encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            predictions[line["model"]][line["id"]] = line
    tasks = sorted(set.intersection(*(set(of_one) for of_one in predictions.values()))) if predictions else []
    if not tasks:
        raise ValueError("there is no held-out task on which both models acted without a fault")
    return PairedTasks(tasks, dict(predictions))
