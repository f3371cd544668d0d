"""Turns what base and trained model did on held-out tasks into scores with intervals, all in all and by domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from training.evaluation.paired_tasks import read_paired_tasks
from training.evaluation.scores import Scored, as_plain
from training.models.evaluation import DOMAINS

MEASURES = ("accuracy", "greedy_success", "score")


def score_tasks(path: Path) -> Scored:
    """Reads the predictions of held-out tasks. `accuracy` is the share of tasks that the policy that serves solved,
    with its exploration, `greedy_success` the share that was solved greedily. Raises ValueError where no task was acted
    on without a fault by every model."""
    paired = read_paired_tasks(path)
    measures = [name for name in MEASURES if paired.knows(name)]
    domains = paired.tasks_by("domain")

    def mean_of(model: str, name: str, tasks: list[str]) -> dict[str, Any]:
        return as_plain(paired.mean(model, name, tasks))

    def gain_of(name: str, tasks: list[str]) -> dict[str, Any]:
        return as_plain(paired.gain(name, tasks))

    everything = list(paired.tasks)
    scores: dict[str, dict[str, Any]] = {
        model: {name: mean_of(model, name, everything) for name in measures}
        | {DOMAINS: {domain: mean_of(model, "accuracy", tasks) for domain, tasks in domains.items()}}
        for model in paired.models
    }
    differences: dict[str, Any] = {}
    if {"base", "trained"} <= set(paired.models):
        differences = {name: gain_of(name, everything) for name in measures}
        differences[DOMAINS] = {domain: gain_of("accuracy", tasks) for domain, tasks in domains.items()}
    return Scored(len(everything), scores, differences)
