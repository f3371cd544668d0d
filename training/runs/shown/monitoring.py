"""What a run is doing, for people at a terminal (`manage.py monitor`): progress, newest figures, time and cost."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.utils import timezone

from training.models import RunMetric, TrainingRun
from training.runs.shown.curves import estimate_left

FIRST_SHOWN = ("loss", "reward", "solved", "heldout_solved", "heldout_accuracy", "kl")
"""Figures that are shown first, where a run has them."""


def observe_run(run: TrainingRun) -> dict[str, Any]:
    """Plain values. `figures` are the newest of each curve; `cost` and `estimated_cost` are in the unit of
    RECKONER_MACHINE_HOUR_PRICE, null without a price."""
    elapsed = elapsed_of(run)
    left = estimate_left(run)
    expected = run.estimate.get("seconds")
    newest = RunMetric.objects.filter(run=run).order_by("name", "-attempt", "-step").distinct("name")
    figures = {metric.name: metric.value for metric in newest}
    warning = run.events.filter(kind="warning").order_by("-at").first()
    return {
        "run": str(run.pk),
        "name": run.name,
        "state": run.state,
        "progress": run.progress,
        "message": run.message,
        "steps": max((metric.step for metric in newest), default=0),
        "figures": sort_figures(figures),
        "elapsed_seconds": round(elapsed.total_seconds()) if elapsed is not None else None,
        "left_seconds": round(left.total_seconds()) if left is not None else None,
        "estimated_seconds": expected,
        "cost": price_of(elapsed.total_seconds()) if elapsed is not None else None,
        "estimated_cost": price_of(expected) if expected is not None else None,
        "warning": warning.details.get("message") if warning is not None else None,
        "error": run.error,
        "version": str(run.produced_version) if run.produced_version is not None else None,
    }


def elapsed_of(run: TrainingRun) -> dt.timedelta | None:
    """From the run's start to its end, or to now; None before it has started."""
    if run.started_at is None:
        return None
    return (run.finished_at or timezone.now()) - run.started_at


def price_of(seconds: float) -> float | None:
    """What so many seconds of this machine cost; None where nobody has said what an hour costs."""
    price: float = settings.MACHINE_HOUR_PRICE
    return round(seconds / 3600 * price, 4) if price else None


def sort_figures(figures: Mapping[str, float]) -> dict[str, float]:
    """Those that people look at first come first."""
    return {name: figures[name] for name in sorted(figures, key=_place)}


def _place(name: str) -> tuple[int, str]:
    return (FIRST_SHOWN.index(name) if name in FIRST_SHOWN else len(FIRST_SHOWN), name)
