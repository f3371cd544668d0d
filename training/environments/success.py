"""How many held-out tasks of an environment runs have solved: by run, and before against after by domain.

Solved is what the policy that serves solves, with its exploration; what is solved greedily stands beside it by run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models_registry.models import ModelVersion
from training.evaluation.measures import find_reach, tone_of
from training.models import DatasetKind, DatasetSnapshot, Evaluation, TrainingRun
from training.models.evaluation import DOMAINS
from training.run_states import RunState
from workspaces.models import Workspace

MOST = 200
"""The newest so many evaluations on tasks are looked at."""
Interval = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DomainLine:
    """Solved tasks of one domain by base and trained model, and the paired difference; `reach` is where its axis ends
    on either side of 0."""

    name: str
    base: Interval | None
    trained: Interval | None
    difference: Interval | None
    reach: float
    tone: str

    @property
    def left(self) -> float:
        return -self.reach


def list_domains(evaluation: Evaluation) -> list[DomainLine]:
    """In the order of their names, the differences on one axis; none of rows that are no tasks."""
    base, trained = (evaluation.scores.get(which, {}).get(DOMAINS, {}) for which in ("base", "trained"))
    differences: Mapping[str, Interval] = evaluation.differences.get(DOMAINS, {})
    reach = find_reach(*differences.values())
    return [
        DomainLine(
            name, base.get(name), trained.get(name), differences.get(name), reach, tone_of(differences.get(name))
        )
        for name in sorted({*base, *trained})
    ]


@dataclass(frozen=True, slots=True)
class Success:
    """What the workspace's runs reached in one environment. `tasks`: how many different rows of tasks successful runs
    learnt from. `best`: the version that solved most, with its share."""

    tasks: int = 0
    evaluations: Sequence[Evaluation] = ()

    @property
    def best(self) -> tuple[ModelVersion, Interval] | None:
        found = [(one.version, one.scores["trained"]["accuracy"]) for one in self.evaluations]
        return max(found, key=lambda pair: float(pair[1]["mean"]), default=None)


def find_success(workspace: Workspace) -> dict[str, Success]:
    """By environment, of those in which something was learnt or measured; evaluations newest first. Two queries."""
    evaluations: dict[str, list[Evaluation]] = {}
    for one in (
        Evaluation.objects.for_workspace(workspace)
        .filter(dataset__kind=DatasetKind.TASKS)
        .select_related(
            "dataset", "run__dataset", "run__agent", "version__registered_model", "against__registered_model"
        )
        .order_by("-id")[:MOST]
    ):
        if "trained" in one.scores:
            evaluations.setdefault(one.dataset.environment, []).append(one)
    learnt = TrainingRun.objects.for_workspace(workspace).filter(state=RunState.SUCCEEDED).values("dataset")
    tasks: dict[str, int] = {}
    for dataset in DatasetSnapshot.objects.for_workspace(workspace).filter(kind=DatasetKind.TASKS, id__in=learnt):
        tasks[dataset.environment] = tasks.get(dataset.environment, 0) + dataset.rows
    return {name: Success(tasks.get(name, 0), evaluations.get(name, ())) for name in {*evaluations, *tasks}}


def draw_domains(lines: Sequence[DomainLine]) -> dict[str, Any] | None:
    """The figure for charts.js: solved tasks in percent by domain, before and after, error bars of 95 %."""
    if not lines:
        return None
    return {
        "title": "Held-out tasks solved by domain as it serves, %",
        "says": "; ".join(
            f"{line.name or 'no domain'}: from {_percent(line.base, 'mean')} % to {_percent(line.trained, 'mean')} %"
            for line in lines
        ),
        "height": 240,
        "x": {
            "label": "domain",
            "values": list(range(1, len(lines) + 1)),
            "names": [line.name or "no domain" for line in lines],
            "whole": True,
        },
        "y": _PERCENT,
        "series": [
            _dots("before", [line.base for line in lines], "muted"),
            _dots("after", [line.trained for line in lines]),
        ],
    }


def draw_runs(evaluations: Sequence[Evaluation]) -> dict[str, Any] | None:
    """The figure for charts.js: solved tasks in percent by run, the oldest first; None of fewer than two runs."""
    oldest_first = list(reversed(evaluations))
    if len(oldest_first) < 2:
        return None
    return {
        "title": "Held-out tasks solved by run as it serves, %",
        "says": "; ".join(
            f"{one.version}: {_percent(one.scores['trained']['accuracy'], 'mean')} %" for one in oldest_first
        ),
        "height": 240,
        "x": {
            "label": "version",
            "values": list(range(1, len(oldest_first) + 1)),
            "names": [str(one.version) for one in oldest_first],
            "whole": True,
        },
        "y": _PERCENT,
        "series": [
            _dots("before", [one.scores.get("base", {}).get("accuracy") for one in oldest_first], "muted"),
            _dots("after", [one.scores["trained"]["accuracy"] for one in oldest_first]),
        ],
    }


_PERCENT = {"min": 0, "max": 100, "decimals": 1, "unit": "%"}


def _dots(label: str, intervals: Sequence[Interval | None], tone: str = "") -> dict[str, Any]:
    ends = {name: [_percent(one, end) for one in intervals] for name, end in _ENDS.items()}
    return {"label": label, "kind": "dots", **ends, **({"tone": tone} if tone else {})}


_ENDS = {"values": "mean", "low": "low", "high": "high"}


def _percent(interval: Interval | None, end: str) -> float | None:
    return round(float(interval[end]) * 100, 2) if interval else None
