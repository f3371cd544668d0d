"""An evaluation as rows for pages: base, trained and their paired difference for each measure."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from models_registry.models import GateVerdict
from models_registry.versions.gates import Gate
from training.evaluation.rankings import TITLES
from training.models import DatasetSnapshot, Evaluation

MEASURES = (
    ("accuracy", "Held-out accuracy", "share"),
    ("greedy_success", "Held-out tasks solved greedily", "share"),
    ("reward", "Held-out reward", "number"),
    ("score", "Held-out score of tasks", "share"),
    ("valid_share", "Valid actions", "share"),
    ("ordered_rightly", "Held-out pairs ordered rightly", "share"),
    ("margin", "Margin of held-out pairs", "number"),
    *TITLES,
)
OF_TASKS: Mapping[str, str] = {"accuracy": "Held-out tasks solved as it serves"}
"""Titles of measures that mean something else of tasks."""
ESTIMATES = (
    ("logged", "Mean reward of the log"),
    ("doubly_robust", "Doubly robust"),
    ("snips", "SNIPS"),
    ("ips", "IPS"),
    ("direct", "Direct method"),
)
"""Of an off-policy verdict's details, in the order in which they are shown."""
MARGIN = 1.15
"""An axis ends this much beyond the furthest end that stands on it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One line of an evaluation: {mean, low, high, n, clusters} of base, trained and their paired difference.

    `reach` is where the difference's axis ends on either side of 0; `tone` is "ok" or "bad" where its whole interval
    lies on one side of 0, else "".
    """

    name: str
    title: str
    kind: str
    base: dict[str, Any] | None
    trained: dict[str, Any] | None
    difference: dict[str, Any] | None
    reach: float
    tone: str

    @property
    def left(self) -> float:
        return -self.reach


def measure_evaluation(evaluation: Evaluation) -> list[Measured]:
    """The measures that the evaluation holds, in the order of MEASURES."""
    lines = []
    titles = titles_for(evaluation.dataset if evaluation.dataset_id is not None else None)
    for name, _, kind in MEASURES:
        base = evaluation.scores.get("base", {}).get(name)
        trained = evaluation.scores.get("trained", {}).get(name)
        difference = evaluation.differences.get(name)
        if base is None and trained is None:
            continue
        reach = find_reach(difference)
        lines.append(Measured(name, titles[name], kind, base, trained, difference, reach, tone_of(difference)))
    return lines


def titles_for(dataset: DatasetSnapshot | None) -> Mapping[str, str]:
    """By measure, for people, of a model that was measured on these rows."""
    plain = {name: title for name, title, _ in MEASURES}
    return plain | dict(OF_TASKS) if dataset is not None and dataset.is_of_tasks else plain


@dataclass(frozen=True, slots=True)
class ShownVerdict:
    """A gate's verdict, with an axis of its own around 0 and the estimates that it rests on, if from a log."""

    verdict: GateVerdict
    reach: float
    tone: str
    estimates: list[tuple[str, Mapping[str, float]]]

    @property
    def left(self) -> float:
        return -self.reach


def draw_verdicts(gate: Gate) -> list[ShownVerdict]:
    shown = []
    for one in gate.verdicts:
        interval = None
        if one.low is not None and one.high is not None and not one.refusals:
            interval = {"low": one.low, "high": one.high}
        told = one.details.get("estimates", {})
        estimates = [(title, told[name]) for name, title in ESTIMATES if name in told]
        shown.append(ShownVerdict(one, find_reach(interval), tone_of(interval), estimates))
    return shown


def find_reach(*intervals: Mapping[str, float] | None) -> float:
    """Where an axis around 0 ends so that every interval fits on it; 1 without any."""
    ends = [abs(interval[end]) for interval in intervals if interval for end in ("low", "high")]
    return max(ends, default=1.0) * MARGIN or 1.0


def tone_of(difference: Mapping[str, float] | None) -> str:
    """ "ok" when the whole interval lies above 0, "bad" when it lies below, else ""."""
    if not difference:
        return ""
    return "ok" if difference["low"] > 0 else "bad" if difference["high"] < 0 else ""


def find_scores(versions: Collection[uuid.UUID]) -> dict[uuid.UUID, Mapping[str, Any]]:
    """{accuracy, reward, valid_share: interval} of each version that was measured: what every page shows of it.

    The newest evaluation of its own counts; a version without one has the scores that it got as the base of the newest.
    """
    found: dict[uuid.UUID, Mapping[str, Any]] = {}
    own: set[uuid.UUID] = set()
    for one in Evaluation.objects.filter(Q(version__in=versions) | Q(against__in=versions)).order_by("-id"):
        if one.version_id not in own:
            own.add(one.version_id)
            found[one.version_id] = one.scores.get("trained", {})
        if one.against_id is not None:
            found.setdefault(one.against_id, one.scores.get("base", {}))
    return found
