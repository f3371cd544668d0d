"""How much more accurate one run's model is than another's on the same held-out rows, from the predictions that both
left in their folders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.conf import settings

from models_registry.statistics.intervals import paired_difference
from training.evaluation.measures import find_reach, tone_of
from training.evaluation.predictions import MAX_BYTES, find_result_file
from training.evaluation.scores import as_plain
from training.models import TrainingRun


@dataclass(frozen=True, slots=True)
class PairedLine:
    """The difference of each run's trained model to that of the first, in accuracy: {mean, low, high, n, clusters}.
    None for the first itself, and for a run whose predictions are gone or of other rows."""

    differences: list[dict[str, Any] | None]
    tones: list[str]
    reach: float

    @property
    def left(self) -> float:
        return -self.reach

    @property
    def shown(self) -> list[tuple[dict[str, Any] | None, str]]:
        return list(zip(self.differences, self.tones, strict=True))


def pair_runs(runs: Sequence[TrainingRun]) -> PairedLine | None:
    """Paired by row and clustered by group; None where no run can be paired with the first."""
    first, *others = [read_hits(run) for run in runs]
    differences: list[dict[str, Any] | None] = [None]
    for other, run in zip(others, runs[1:], strict=True):
        same = bool(first) and first.keys() == other.keys() and run.heldout_id == runs[0].heldout_id
        differences.append(subtract_hits(other, first) if same else None)
    if not any(differences):
        return None
    return PairedLine(differences, [tone_of(one) for one in differences], find_reach(*differences))


Hits = dict[str, tuple[float, str]]
"""Of each held-out row, whether the model was right on it (0 or 1), and its cluster."""


def read_hits(run: TrainingRun, model: str = "trained") -> Hits:
    """Of the model that the run has trained, or of its `base`; empty without predictions."""
    path = find_result_file(settings.RUNS / str(run.id), "predictions")
    if path is None or path.stat().st_size > MAX_BYTES:
        return {}
    with path.open(encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["model"] == model]
    return {str(row["id"]): (float(row["correct"]), row.get("group") or str(row["id"])) for row in rows}


def subtract_hits(hits: Hits, other: Hits) -> dict[str, Any]:
    """The accuracy of the first less that of the other, paired by row: {mean, low, high, n, clusters}."""
    ids = sorted(hits)
    mine, theirs = (np.array([found[row][0] for row in ids]) for found in (hits, other))
    return as_plain(paired_difference(mine, theirs, [hits[row][1] for row in ids]), -1.0, 1.0)
