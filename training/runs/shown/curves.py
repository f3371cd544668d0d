"""Reads the curves of runs: all of one run, only its new points, or a few points of many.

A resumed run measures some steps twice; the newest attempt's value counts.
"""

from __future__ import annotations

import csv
import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypedDict
from uuid import UUID

from django.db import connection
from django.db.models import Min

from training.models import RunEvent, RunMetric, TrainingRun
from training.run_states import RunState
from workspaces.glossary import find_entry

CURVE_POINTS = 1000
SPARK_POINTS = 32
PACE_EVENTS = 60
"""The pace is that of so many last reports: about the last 40 seconds."""

MEANINGS = {
    "loss": "loss",
    "reward": "reward of fresh actions",
    "heldout_accuracy": "held-out accuracy",
    "probability_of_right": "probability of right",
    "kl": "KL",
    "entropy": "entropy",
    "valid_share": "valid share",
    "learning_rate": "learning rate",
    "grad_norm": "gradient norm",
    "tokens_per_second": "tokens per second",
    "peak_memory_gb": "peak memory",
}
"""Curves that most methods give, in the order in which they are drawn, with their terms in the glossary."""

TITLES = {
    "kl": "KL",
    "heldout_accuracy": "held-out accuracy",
    "heldout_solved": "held-out tasks solved by the weights in training",
    "peak_memory_gb": "peak memory, GB",
    "steps_taken": "steps an episode",
}

SHARES = frozenset({"solved", "heldout_solved", "score", "faults"})
"""Of episodes; other shares say so in their names."""

SPARKLINES = """
SELECT run_id, avg(value)
  FROM (
    SELECT run_id, value, ntile(%(points)s) OVER (PARTITION BY run_id ORDER BY step, attempt) AS bucket
      FROM training_runmetric
     WHERE run_id = ANY(%(runs)s) AND name = %(name)s
  ) AS parts
 GROUP BY run_id, bucket
 ORDER BY run_id, bucket
"""


class Kind(TypedDict):
    """How a curve is shown. `share`: its values are shares, drawn in percent; `means`: for people, "" where only some
    methods give it; `place`: those with a smaller one are drawn before it."""

    title: str
    share: bool
    means: str
    place: float


class Curve(TypedDict):
    name: str
    x: list[int]
    y: list[float]


class Attempt(TypedDict):
    """An attempt's number and the first step that it measured."""

    attempt: int
    step: int


class Curves(TypedDict):
    """`after` is what to ask with next time; `kinds` say how each curve is shown."""

    after: int
    curves: list[Curve]
    kinds: dict[str, Kind]
    attempts: list[Attempt]


def read_curves(run: TrainingRun, *, after: int = 0) -> Curves:
    """Every curve of the run, at most about CURVE_POINTS each; with `after`, only points that came since, unthinned."""
    rows = (
        RunMetric.objects.filter(run=run, id__gt=after)
        .order_by("attempt", "step")
        .values_list("id", "name", "step", "value")
    )
    found: dict[str, dict[int, float]] = {}
    last = after
    for row, name, step, value in rows:
        found.setdefault(name, {})[step] = value
        last = max(last, row)
    started = RunMetric.objects.filter(run=run).values("attempt").annotate(step=Min("step")).order_by("attempt")
    return {
        "after": last,
        "curves": [
            _whole(name, found[name]) if after else thin_curve(name, found[name], CURVE_POINTS)
            for name in order_curves(found)
        ],
        "kinds": {name: describe_curve(name) for name in found},
        "attempts": [{"attempt": row["attempt"], "step": row["step"]} for row in started],
    }


def describe_curve(name: str) -> Kind:
    """The common ones stand as in MEANINGS, the others between those of learning and those of the machine."""
    share = name in SHARES or any(part in name for part in ("accuracy", "share", "probability"))
    title = TITLES.get(name, name.replace("_", " ")) + (", %" if share else "")
    known = list(MEANINGS)
    place = known.index(name) if name in known else known.index("learning_rate") - 0.5
    means = find_entry(MEANINGS[name]).plain if name in MEANINGS else ""
    return {"title": title, "share": share, "means": means, "place": place}


def order_curves(names: Iterable[str]) -> list[str]:
    """As they are drawn; those of one place by name."""
    return sorted(names, key=lambda name: (describe_curve(name)["place"], name))


def write_curves(run: TrainingRun) -> Iterator[str]:
    """Lines of CSV: every point of every curve, unthinned, by name and step."""
    writer = csv.writer(_Echo())
    yield writer.writerow(["curve", "step", "value"])
    points = RunMetric.objects.filter(run=run).order_by("name", "step", "-attempt").distinct("name", "step")
    for point in points.values_list("name", "step", "value").iterator():
        yield writer.writerow(point)


class _Echo:
    """Gives a csv.writer its lines back."""

    def write(self, value: str) -> str:
        return value


def _whole(name: str, values: dict[int, float]) -> Curve:
    steps = sorted(values)
    return {"name": name, "x": steps, "y": [values[step] for step in steps]}


def thin_curve(name: str, values: dict[int, float], points: int) -> Curve:
    """Every n-th step, so that about `points` are left; the last one always stays."""
    steps = sorted(values)
    every = -(-len(steps) // points) or 1
    kept = steps[::every]
    if steps and kept[-1] != steps[-1]:
        kept.append(steps[-1])
    return {"name": name, "x": kept, "y": [values[step] for step in kept]}


def read_sparklines(runs: Sequence[UUID], *, name: str = "loss") -> dict[UUID, list[float]]:
    """At most SPARK_POINTS means of the curve for each run that has it, by one query."""
    if not runs:
        return {}
    found: dict[UUID, list[float]] = {}
    with connection.cursor() as cursor:
        cursor.execute(SPARKLINES, {"points": SPARK_POINTS, "runs": list(runs), "name": name})
        for run, value in cursor.fetchall():
            found.setdefault(run, []).append(value)
    return found


def estimate_left(run: TrainingRun) -> dt.timedelta | None:
    """Time that the running part of the run still takes at the pace of its last reports; None while there is none.

    The engine measures the model after it has learned, and counts anew for that: the pace is never taken across.
    """
    if run.state != RunState.RUNNING:
        return None
    reports = list(
        RunEvent.objects.filter(run=run, kind="progress")
        .order_by("-attempt", "-sequence")
        .values_list("attempt", "at", "details")[:PACE_EVENTS]
    )
    if not reports:
        return None
    newest, now, details = reports[0]
    share = _fraction(details)
    first_at, first_share = now, share
    for attempt, at, earlier in reports[1:]:
        if attempt != newest or _fraction(earlier) > first_share:
            break
        first_at, first_share = at, _fraction(earlier)
    if share <= first_share or now <= first_at:
        return None
    return (now - first_at) / (share - first_share) * (1 - share)


def _fraction(details: dict[str, Any]) -> float:
    return float(details.get("fraction", 0.0))
