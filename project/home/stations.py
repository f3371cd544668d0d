"""The nine stations of the loop: how much each holds, what moved today, and what waits before it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from django.db import connection

from decisions.rewards.queueing import CALCULATE_REWARDS
from jobs.models import JobState
from project.home.counts import DAYS, Count, LedgerCounts
from project.home.items import page_of
from project.home.rows import Rows
from training.run_states import RunState
from workspaces.models import Workspace

JUST_NOW = dt.timedelta(seconds=60)
"""A station that saw something this lately is moving."""
ICONS = {
    "serve": "bot",
    "record": "database",
    "feedback": "message-square",
    "reward": "scale",
    "dataset": "layers",
    "train": "cpu",
    "evaluate": "gauge",
    "register": "package",
    "experiment": "flask-conical",
}
NONE = Count(0)


@dataclass(frozen=True, slots=True)
class Station:
    """One place of the loop. `waiting` is what lies before it; `series` the last DAYS days, today last, or empty."""

    key: str
    unit: str
    total: Count
    today: Count
    state: str
    url: str
    waiting: Count = NONE
    waits: str = ""
    series: tuple[int | None, ...] = ()

    @property
    def title(self) -> str:
        return self.key.capitalize()

    @property
    def icon(self) -> str:
        return ICONS[self.key]

    @property
    def known(self) -> list[int]:
        """The counted days of the series, or nothing where a line would say nothing."""
        found = [value for value in self.series if value is not None]
        return found if any(found) else []


@dataclass(frozen=True, slots=True)
class Sight:
    """What the stations are made of. `agents` counts them, `unserved` those without a version to answer by; `stuck`
    holds the stations of what is stuck."""

    workspace: Workspace
    now: dt.datetime
    ledger: LedgerCounts
    rows: Rows
    stuck: Set[str]
    agents: int
    unserved: int

    def just(self, moment: dt.datetime | None) -> bool:
        return moment is not None and self.now - moment < JUST_NOW

    def station(
        self,
        key: str,
        unit: str,
        total: Count,
        today: Count,
        *,
        page: str,
        moving: bool,
        waiting: Count = NONE,
        waits: str = "",
        series: tuple[int | None, ...] = (),
    ) -> Station:
        state = "stuck" if key in self.stuck else "moving" if moving else "waiting" if waiting else "idle"
        return Station(key, unit, total, today, state, page_of(self.workspace, page), waiting, waits, series)


def list_stations(sight: Sight) -> tuple[Station, ...]:
    """In the order of the loop. One statement."""
    return (*_ledger_stations(sight), *_model_stations(sight))


def _ledger_stations(sight: Sight) -> tuple[Station, ...]:
    ledger, station = sight.ledger, sight.station
    just_decided = sight.just(ledger.last_decision)
    calculating = any(job.kind == CALCULATE_REWARDS and job.state == JobState.RUNNING for job in sight.rows.jobs)
    return (
        station(
            "serve",
            "agent" if sight.agents == 1 else "agents",
            Count(sight.agents),
            ledger.served_today,
            page="models",
            moving=just_decided and ledger.last_served,
            waiting=Count(sight.unserved),
            waits="without a model",
        ),
        station(
            "record",
            "decisions",
            ledger.decisions,
            ledger.decisions_today,
            page="decisions",
            moving=just_decided,
            series=ledger.decision_series,
        ),
        station(
            "feedback",
            "observations",
            ledger.feedback,
            ledger.feedback_today,
            page="decisions",
            moving=sight.just(ledger.last_feedback),
            waiting=Count(ledger.unanswered),
            waits=f"{f'of {ledger.looked_at:,} ' if ledger.look_ended else ''}without feedback",
            series=ledger.feedback_series,
        ),
        station(
            "reward",
            "rewards",
            ledger.rewards,
            ledger.rewards_today,
            page="rewards",
            moving=calculating or sight.just(ledger.last_reward),
            waiting=ledger.unread,
            waits="to calculate",
        ),
    )


_SMALL = (
    ("dataset", "training_datasetsnapshot", "created_at"),
    ("train", "training_trainingrun", "created_at"),
    ("evaluate", "training_evaluation", "created_at"),
    ("register", "models_registry_modelversion", "created_at"),
    ("experiment", "models_registry_experiment", "started_at"),
)
_BY_DAY = " UNION ALL ".join(
    f"SELECT '{key}', ({moment} AT TIME ZONE 'UTC')::date, count(*), max({moment}) FROM {table}"  # noqa: S608
    " WHERE workspace_id = %(workspace)s GROUP BY 2"
    for key, table, moment in _SMALL
)


def _count_small_tables(workspace: Workspace) -> dict[str, dict[dt.date, tuple[int, dt.datetime]]]:
    """Of the tables that stay small: rows of each day, and the moment of its last, in one statement."""
    found: dict[str, dict[dt.date, tuple[int, dt.datetime]]] = {key: {} for key, _, _ in _SMALL}
    with connection.cursor() as cursor:
        cursor.execute(_BY_DAY, {"workspace": workspace.id})
        for key, day, count, last in cursor.fetchall():
            found[key][day] = (count, last)
    return found


def _model_stations(sight: Sight) -> tuple[Station, ...]:
    rows, by_day = sight.rows, _count_small_tables(sight.workspace)
    today = sight.now.astimezone(dt.UTC).date()
    days = [today - dt.timedelta(days=back) for back in range(DAYS - 1, -1, -1)]
    unevaluated = sum(not version.evaluated and not version.serves for version in rows.versions)

    def station(key: str, unit: str, page: str, waiting: Count, waits: str, moving: bool = False) -> Station:
        found: Mapping[dt.date, Any] = by_day[key]
        series = tuple(found[day][0] if day in found else 0 for day in days)
        total = Count(sum(count for count, _ in found.values()))
        moving = moving or any(sight.just(last) for _, last in found.values())
        return sight.station(
            key, unit, total, Count(series[-1]), page=page, moving=moving, waiting=waiting, waits=waits, series=series
        )

    runs = rows.under_way
    works = any(run.state != RunState.QUEUED for run in runs)
    live = Count(len(rows.live))
    return (
        station("dataset", "datasets", "datasets", sight.ledger.unfrozen, "new rewards"),
        station("train", "runs", "runs", Count(len(runs)), "queued or running", works),
        station("evaluate", "evaluations", "models", Count(unevaluated), "not evaluated"),
        station("register", "versions", "models", Count(len(rows.untried)), "ready for an experiment"),
        station("experiment", "experiments", "experiments", live, "running", bool(live)),
    )
