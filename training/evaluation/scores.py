"""Turns an engine's predictions into scores with intervals, and into the gate's verdict before live traffic.

Scores are of the model's own action on held-out inputs. Rows are clustered by their group (module, user, episode), and
the difference is paired: both models answered the same rows (docs/learning.md).
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from decisions.models import RewardSpec
from models_registry.models import GateKind, GateVerdict, ModelVersion
from models_registry.statistics.intervals import Interval, clustered_mean, paired_difference, wilson_interval
from training.engine.spec.result import RunResult
from training.evaluation.rankings import Scored as Ranked
from training.evaluation.rankings import compare_rankings, measure_rankings
from training.rows.reward_scale import reward_if


@dataclass(frozen=True, slots=True)
class Scored:
    """`scores[model][measure]` and `differences[measure]` as {mean, low, high, n, clusters}.

    `ranks`: every row is an item of a ranking of which is known what belongs first.
    """

    rows: int
    scores: dict[str, dict[str, Any]]
    differences: dict[str, Any]
    ranks: bool = False


def as_plain(interval: Interval, least: float = -math.inf, most: float = math.inf) -> dict[str, Any]:
    """Within the least and the most that the values can be, where these are known."""
    return asdict(interval.within(least, most) if math.isfinite(most - least) else interval)


def score_predictions(path: Path, result: RunResult, *, spec: RewardSpec, free_rows: int) -> Scored:
    """Reads predictions.jsonl. Accuracy is of the most probable option; reward is the expectation, under the policy
    that would serve, of what the spec gives to a right (confirmed) or wrong (corrected) action. `free_rows` is how many
    rows were also answered by free generation."""
    by_model: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    with path.open(encoding="utf-8") as handle:
        for line in handle:
            row = json.loads(line)
            by_model[row["model"]][row["id"]] = row
    right, wrong = reward_if(spec, "confirmed"), reward_if(spec, "corrected")
    ids = sorted(next(iter(by_model.values())))
    groups = [next(iter(by_model.values()))[row].get("group") or row for row in ids]
    measures = {
        model: {
            "accuracy": np.array([float(rows[row]["correct"]) for row in ids]),
            "reward": np.array([wrong + (right - wrong) * float(rows[row]["expected_right"]) for row in ids]),
        }
        for model, rows in by_model.items()
    }
    ends = {"accuracy": (0.0, 1.0), "reward": (min(right, wrong), max(right, wrong))}
    scores: dict[str, dict[str, Any]] = {
        model: {name: as_plain(clustered_mean(values, groups), *ends[name]) for name, values in found.items()}
        for model, found in measures.items()
    }
    for model, given in result.scores.items():
        if given.valid_share is not None:
            # A model answers every held-out text freely, and of rows with options a sample.
            asked = given.rows if given.log_p is not None else min(free_rows, given.rows)
            scores[model]["valid_share"] = as_plain(wilson_interval(round(given.valid_share * asked), asked))
    differences = {}
    if {"base", "trained"} <= measures.keys():
        differences = {
            name: as_plain(
                paired_difference(measures["trained"][name], measures["base"][name], groups), low - high, high - low
            )
            for name, (low, high) in ends.items()
        }
    ranks = False
    if result.rankings is not None:
        rankings, items = read_rankings(path.parent / result.rankings)
        ranks = items == set(ids)
        for name_of, some in rankings.items():
            scores[name_of] |= {name: as_plain(one) for name, one in measure_rankings(some).items()}
        if {"base", "trained"} <= rankings.keys():
            compared = compare_rankings(rankings["trained"], rankings["base"])
            differences |= {name: as_plain(one) for name, one in compared.items()}
    return Scored(len(ids), scores, differences, ranks)


def read_rankings(path: Path) -> tuple[dict[str, list[Ranked]], set[str]]:
    """By model, and the ids of all items."""
    found: dict[str, list[Ranked]] = defaultdict(list)
    items: set[str] = set()
    with path.open(encoding="utf-8") as lines:
        for told in map(json.loads, lines):
            found[told["model"]].append(Ranked(told["id"], told["group"], told["scores"], told["relevant"]))
            items.update(told["items"])
    return found, items


def score_pairs(path: Path) -> Scored:
    """Of a reward model: the share of held-out pairs that it orders rightly, and by how much r of the better text
    exceeds that of the worse."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    groups = [line["group"] or line["id"] for line in lines]
    ordered = clustered_mean(np.array([float(line["correct"]) for line in lines]), groups)
    margin = clustered_mean(np.array([line["margin"] for line in lines]), groups)
    trained = {"ordered_rightly": as_plain(ordered, 0.0, 1.0), "margin": as_plain(margin)}
    return Scored(len(lines), {"trained": trained}, {})


def gate_version(*, version: ModelVersion, against: ModelVersion, scored: Scored) -> GateVerdict | None:
    """Passed when the paired difference in accuracy lies above 0 with its whole interval: allows an experiment. Of
    rankings it is that in NDCG@10: of ten items nine are wrong, and whoever says so of all is right in 90 %."""
    measure = "ndcg_10" if scored.ranks else "accuracy"
    difference = scored.differences.get(measure)
    if difference is None:
        return None
    return GateVerdict.objects.create(
        workspace_id=version.workspace_id,
        version=version,
        against=against,
        kind=GateKind.HELD_OUT,
        passed=difference["low"] > 0,
        estimate=difference["mean"],
        low=difference["low"],
        high=difference["high"],
        details={"measure": measure, "rows": scored.rows},
    )
