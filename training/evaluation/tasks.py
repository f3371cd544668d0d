"""Turns what base and trained model did on held-out tasks into scores with intervals, all in all and by domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from training.evaluation.paired_tasks import read_paired_tasks
from training.evaluation.scores import Scored, as_plain

MEASURES = ("accuracy", "score")
DOMAINS = "domains"
"""Under this name scores and differences hold {domain: interval of solved tasks}."""


def score_tasks(path: Path) -> Scored:
    """Reads the predictions of held-out tasks. `accuracy` is the share of solved tasks. Raises ValueError where no task
    was acted on without a fault by every model."""
    paired = read_paired_tasks(path)
    domains = paired.tasks_by("domain")

    def mean_of(model: str, name: str, tasks: list[str]) -> dict[str, Any]:
        return as_plain(paired.mean(model, name, tasks))

    def gain_of(name: str, tasks: list[str]) -> dict[str, Any]:
        return as_plain(paired.gain(name, tasks))

    everything = list(paired.tasks)
    scores: dict[str, dict[str, Any]] = {
        model: {name: mean_of(model, name, everything) for name in MEASURES}
        | {DOMAINS: {domain: mean_of(model, "accuracy", tasks) for domain, tasks in domains.items()}}
        for model in paired.models
    }
    differences: dict[str, Any] = {}
    if {"base", "trained"} <= set(paired.models):
        differences = {name: gain_of(name, everything) for name in MEASURES}
        differences[DOMAINS] = {domain: gain_of("accuracy", tasks) for domain, tasks in domains.items()}
    return Scored(len(everything), scores, differences)
