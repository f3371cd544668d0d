"""Calibration and confusions from the predictions of a run's evaluation.

The engine leaves `predictions.jsonl` in its attempt's folder. Without the folder there is nothing to show here; scores
and intervals are in the database.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
from django.conf import settings

from models_registry.statistics.intervals import wilson_interval
from training.engine.rows.types import Logged, find_answers
from training.engine.spec.result import RunResult
from training.models import TrainingRun

BINS = 10
OPTIONS = 16
"""A confusion of more answers than this is a page of its own, which nobody reads."""
MAX_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class Bin:
    """Rows whose action was given about the same probability: the mean of it, and the share that was right.

    `low` and `high` are Wilson's 95 % interval of that share.
    """

    confidence: float
    accuracy: float
    low: float
    high: float
    rows: int


@dataclass(frozen=True, slots=True)
class Cell:
    """`rows` rows with one answer were given one action; `share` is of the answer's rows, in [0, 1]."""

    action: str
    rows: int
    share: float
    right: bool

    @property
    def shade(self) -> float:
        """How strongly the cell is coloured, in [0, 0.35]: text stays readable, and rare confusions can be seen."""
        return 0.35 * (self.share if self.right else math.sqrt(self.share))


@dataclass(frozen=True, slots=True)
class Seen:
    """Reliability by model ("base", "trained") and the trained model's confusion, where it is small enough to read.

    `error[model]` is the expected calibration error: the mean of |confidence − accuracy| over the rows, by bin.
    """

    rows: int
    reliability: dict[str, list[Bin]]
    error: dict[str, float]
    options: list[str]
    confusion: list[tuple[str, int, list[Cell]]]


def read_predictions(run: TrainingRun) -> Seen | None:
    """None where there is no complete attempt with predictions, or it is too large to read while somebody waits; and of
    tasks, whose episodes say more."""
    if run.heldout is not None and run.heldout.is_of_tasks:
        return None
    folder = settings.RUNS / str(run.id)
    path = find_result_file(folder, "predictions")
    if path is None or path.stat().st_size > MAX_BYTES:
        return None
    by_model: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            by_model[row["model"]].append(row)
    reliability = {model: calculate_reliability(rows) for model, rows in by_model.items()}
    answers = _read_answers(folder / "data" / "heldout.jsonl")
    options, confusion = calculate_confusion(by_model.get("trained", []), answers)
    return Seen(
        rows=max((len(rows) for rows in by_model.values()), default=0),
        reliability=reliability,
        error={model: calibration_error(bins) for model, bins in reliability.items()},
        options=options,
        confusion=confusion,
    )


def find_result_file(folder: Path, field: Literal["predictions", "episodes"]) -> Path | None:
    """The file that the result of the newest complete attempt names: it is written last."""
    attempts = [result.parent for result in folder.glob("attempts/*/result.json") if result.parent.name.isdigit()]
    for attempt in sorted(attempts, key=lambda path: int(path.name), reverse=True):
        named = getattr(RunResult.model_validate_json((attempt / "result.json").read_text()), field)
        if named is not None and (attempt / named).is_file():
            return attempt / named
    return None


def _read_answers(path: Path) -> dict[str, str]:
    """Row id → right action, of labelled rows, decisions and texts; empty where the file is gone."""
    if not path.is_file() or path.stat().st_size > MAX_BYTES:
        return {}
    with path.open(encoding="utf-8") as lines:
        rows = list(map(json.loads, lines))
    decisions = msgspec.convert([row for row in rows if "action" in row], list[Logged])
    rows = [row for row in rows if "action" not in row]
    told = {str(row["id"]): row.get("answer") or row["completion"] for row in rows}
    return told | {row.id: row.answer for row in find_answers(decisions)[0]}


def calculate_reliability(rows: list[dict[str, Any]]) -> list[Bin]:
    """The rows' confidence (`p_action`) against whether they were right (`correct`), in BINS equal bins."""
    inside: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        inside[min(BINS - 1, int(row["p_action"] * BINS))].append(row)
    bins = []
    for _, found in sorted(inside.items()):
        right = wilson_interval(sum(bool(row["correct"]) for row in found), len(found))
        confidence = sum(row["p_action"] for row in found) / len(found)
        bins.append(Bin(confidence, right.mean, right.low, right.high, len(found)))
    return bins


def calibration_error(bins: list[Bin]) -> float:
    """The mean of |confidence - accuracy| over the rows, by bin; 0 without rows."""
    rows = sum(one.rows for one in bins)
    return sum(one.rows * abs(one.confidence - one.accuracy) for one in bins) / rows if rows else 0.0


def calculate_confusion(
    rows: list[dict[str, Any]], answers: dict[str, str]
) -> tuple[list[str], list[tuple[str, int, list[Cell]]]]:
    """(options, for each answer its row count and a cell for each option); empty above OPTIONS options."""
    known = [(answers[str(row["id"])], row["action"]) for row in rows if str(row["id"]) in answers]
    options = sorted({name for pair in known for name in pair})
    if not known or len(options) > OPTIONS:
        return [], []
    counts = Counter(known)
    totals = Counter(answer for answer, _ in known)
    table = [
        (
            answer,
            totals[answer],
            [
                Cell(action, counts[answer, action], counts[answer, action] / totals[answer], answer == action)
                for action in options
            ],
        )
        for answer in options
        if totals[answer]
    ]
    return options, table


def draw_reliability(seen: Seen) -> dict[str, Any]:
    """The figure for charts.js: accuracy over confidence in percent, error bars of 95 %, and the line where both are
    equal."""
    places = sorted({0.0, 1.0} | {one.confidence for bins in seen.reliability.values() for one in bins})

    def values(at: dict[float, Bin], name: str) -> list[float | None]:
        return [getattr(at[place], name) * 100 if place in at else None for place in places]

    series: list[dict[str, Any]] = []
    for model, bins in sorted(seen.reliability.items(), reverse=True):
        at = {one.confidence: one for one in bins}
        series.append(
            {
                "label": model,
                "kind": "dots",
                "values": values(at, "accuracy"),
                "low": values(at, "low"),
                "high": values(at, "high"),
            }
        )
    percents = [place * 100 for place in places]
    series.append({"label": "perfect calibration", "values": percents, "tone": "muted", "dash": True, "bare": True})
    return {
        "title": "Accuracy by confidence, %",
        "says": "; ".join(
            f"{model}: calibration error {error * 100:.1f} points"
            for model, error in sorted(seen.error.items(), reverse=True)
        ),
        "height": 240,
        "x": {"label": "confidence, %", "values": percents},
        "y": {"min": 0, "max": 100, "decimals": 1, "unit": "%"},
        "series": series,
    }
