"""Turns what base and trained model did on held-out tasks into scores with intervals, all in all and by domain.

Tasks are clustered by their template, and the difference is paired: both models acted on the same tasks with the same
seeds. A task on which an episode of either failed through its environment says nothing and is left out of both.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from models_registry.statistics.intervals import clustered_mean, paired_difference
from training.evaluation import Scored, as_plain

MEASURES = ("accuracy", "score")
"""Of an episode: whether the task was solved, and how much of it was done, in [0, 1]."""
DOMAINS = "domains"
"""Under this name scores and differences hold {domain: interval of solved tasks}."""


def score_tasks(path: Path) -> Scored:
    """Reads the predictions of held-out tasks. `accuracy` is the share of solved tasks. Raises ValueError where no task
    was acted on without a fault by every model."""
    by_model: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    with path.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            by_model[row["model"]][row["id"]] = row
    ids = sorted(set.intersection(*(set(rows) for rows in by_model.values())))
    if not ids:
        raise ValueError("no held-out task was acted on without a fault by both models")
    first = next(iter(by_model.values()))
    groups = [str(first[row].get("group") or row) for row in ids]
    by_domain: dict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(ids):
        by_domain[str(first[row].get("domain", ""))].append(place)
    values = {
        model: {
            "accuracy": [float(rows[row]["correct"]) for row in ids],
            "score": [float(rows[row]["score"]) for row in ids],
        }
        for model, rows in by_model.items()
    }

    def mean_of(model: str, name: str, places: list[int]) -> dict[str, Any]:
        some = [values[model][name][place] for place in places]
        return as_plain(clustered_mean(some, [groups[place] for place in places]), 0.0, 1.0)

    def gain_of(name: str, places: list[int]) -> dict[str, Any]:
        new, old = ([values[model][name][place] for place in places] for model in ("trained", "base"))
        return as_plain(paired_difference(new, old, [groups[place] for place in places]), -1.0, 1.0)

    everything, domains = list(range(len(ids))), sorted(by_domain)
    scores: dict[str, dict[str, Any]] = {
        model: {name: mean_of(model, name, everything) for name in MEASURES}
        | {DOMAINS: {domain: mean_of(model, "accuracy", by_domain[domain]) for domain in domains}}
        for model in values
    }
    differences: dict[str, Any] = {}
    if {"base", "trained"} <= values.keys():
        differences = {name: gain_of(name, everything) for name in MEASURES}
        differences[DOMAINS] = {domain: gain_of("accuracy", by_domain[domain]) for domain in domains}
    return Scored(len(ids), scores, differences)
