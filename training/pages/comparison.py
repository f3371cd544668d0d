"""Compares two or three runs: curves on one axis, different settings, results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training.evaluation.measures import MEASURES, find_reach, tone_of
from training.models import RunMetric, TrainingRun
from training.runs.shown.curves import describe_curve, order_curves, thin_curve

FEWEST, MOST = 2, 3
POINTS = 400


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that is not the same in all runs; `values` in the order of the runs, "–" where it is not given."""

    name: str
    values: list[str]


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """One measure of every run: (score of the trained model, its difference from its own base, tone), or Nones."""

    title: str
    kind: str
    scores: list[tuple[dict[str, Any] | None, dict[str, Any] | None, str]]
    reach: float

    @property
    def left(self) -> float:
        return -self.reach


def find_differences(runs: Sequence[TrainingRun]) -> list[Difference]:
    """What differs in what the runs were asked to do, by dotted name."""
    told = [_told(run) for run in runs]
    names = sorted({name for one in told for name in one})
    found = [Difference(name, [one.get(name, "–") for one in told]) for name in names]
    return [one for one in found if len(set(one.values)) > 1]


def _told(run: TrainingRun) -> dict[str, str]:
    inputs = {
        "agent": run.agent.name,
        "base": str(run.base_version or run.base_model),
        "dataset": str(run.dataset),
        "held-out rows": str(run.heldout) if run.heldout else "–",
        "replay": str(run.replay) if run.replay else "–",
    }
    return inputs | _flatten(run.spec) | {"method": run.method}


def _flatten(spec: Mapping[str, Any], before: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in spec.items():
        if isinstance(value, Mapping):
            found |= _flatten(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = str(value)
    return found


def compare_scores(runs: Sequence[TrainingRun]) -> list[ScoreLine]:
    """The measures that at least one of the runs has, the differences on one axis."""
    evaluations = [getattr(run, "evaluation", None) for run in runs]
    lines = []
    for name, title, kind in MEASURES:
        found = [
            (one.scores.get("trained", {}).get(name), one.differences.get(name)) if one else (None, None)
            for one in evaluations
        ]
        if any(score for score, _ in found):
            scores = [(score, difference, tone_of(difference)) for score, difference in found]
            lines.append(ScoreLine(title, kind, scores, find_reach(*(difference for _, difference in found))))
    return lines


def overlay_curves(runs: Sequence[TrainingRun]) -> dict[str, Any]:
    """Figures for charts.js: one for each name that a run measured, one series a run, about POINTS points each."""
    curves: dict[str, dict[Any, dict[int, float]]] = {}
    rows = RunMetric.objects.filter(run__in=runs).order_by("attempt", "step")
    for run, name, step, value in rows.values_list("run_id", "name", "step", "value"):
        curves.setdefault(name, {}).setdefault(run, {})[step] = value
    figures = []
    for name in order_curves(curves):
        by_run, kind = curves[name], describe_curve(name)
        thinned = {run: thin_curve(name, values, POINTS) for run, values in by_run.items()}
        steps = sorted({step for curve in thinned.values() for step in curve["x"]})
        scale = 100.0 if kind["share"] else 1.0
        kept = {
            run: {x: y * scale for x, y in zip(curve["x"], curve["y"], strict=True)} for run, curve in thinned.items()
        }
        figures.append(
            {
                "title": kind["title"],
                "help": kind["means"],
                "x": {"label": "step", "values": steps},
                "y": {"decimals": 1, "unit": "%"} if kind["share"] else {"decimals": 2 if "reward" in name else None},
                "series": [
                    {"label": str(run), "values": [kept.get(run.id, {}).get(step) for step in steps]} for run in runs
                ],
            }
        )
    return {"figures": figures}
