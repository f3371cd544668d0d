"""Moments and rows for the tests of the home page."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.utils import timezone

from project.pages.home.overview import Home
from project.pages.home.stations import Station
from tools.factories import (
    DecisionFactory,
    ExperimentFactory,
    FeedbackFactory,
    JobFactory,
    PhaseFactory,
    RunEventFactory,
    TrainingRunFactory,
    uuid7_at,
)

MINUTE, HOUR, DAY = dt.timedelta(minutes=1), dt.timedelta(hours=1), dt.timedelta(days=1)
NOW = (timezone.now() + DAY).replace(hour=15, minute=0, second=0, microsecond=0)
"""An afternoon to come: hours back are still that day, and rows made by the test itself are never of that day."""


def at(home: Home, key: str) -> Station:
    return next(station for station in home.stations if station.key == key)


def decide(agent: Any, moment: dt.datetime, **fields: Any) -> Any:
    return DecisionFactory(agent=agent, id=uuid7_at(moment), observed_at=moment, **fields)


def say(decision: Any, moment: dt.datetime, **fields: Any) -> Any:
    return FeedbackFactory(decision=decision, observed_at=moment, **fields)


def backdate(row: Any, moment: dt.datetime, field: str = "created_at") -> Any:
    type(row).objects.filter(pk=row.pk).update(**{field: moment})
    return row


def whats(items: Any) -> list[str]:
    return [item.what for item in items]


def make_failed_run(agent: Any) -> Any:
    finished = {"started_at": NOW - HOUR, "finished_at": NOW - HOUR}
    return TrainingRunFactory(agent=agent, state="failed", error="Traceback\nValueError: no rows", **finished)


def make_dead_job(agent: Any) -> Any:
    ended = {"state": "dead", "finished_at": NOW - HOUR, "error": "KeyError: 'x'"}
    return JobFactory(workspace=agent.workspace, kind="decisions.mature_outcomes", id=uuid7_at(NOW - HOUR), **ended)


def make_still_run(agent: Any) -> Any:
    run = TrainingRunFactory(agent=agent, state="running", started_at=NOW - HOUR)
    RunEventFactory(run=run, at=NOW - 20 * MINUTE)
    return run


def make_experiment(agent: Any, **fields: Any) -> Any:
    experiment = ExperimentFactory(
        registered_model=agent.registered_model, name="try", exposure_window_seconds=60, **fields
    )
    PhaseFactory(experiment=experiment, attribution_window_seconds=60)
    return backdate(experiment, NOW - HOUR, "started_at")
