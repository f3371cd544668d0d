"""The nine stations of the loop: how much each holds, what moved today, and what waits before it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Set
from dataclasses import dataclass

from django.db import connection

from decisions.rewards.queueing import CALCULATE_REWARDS
from jobs.models import JobState
from project.pages.home.counts import Count, LedgerCounts, midnight
from project.pages.home.items import page_url
from project.pages.home.rows import Rows
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
    """One place of the loop. `waiting` is what lies before it."""

    key: str
    unit: str
    total: Count
    today: Count
    state: str
    url: str
    waiting: Count = NONE
    waits: str = ""

    @property
    def title(self) -> str:
        return self.key.capitalize()

    @property
    def icon(self) -> str:
        return ICONS[self.key]


@dataclass(frozen=True, slots=True)
class LoopFacts:
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
    ) -> Station:
        state = "stuck" if key in self.stuck else "moving" if moving else "waiting" if waiting else "idle"
        return Station(key, unit, total, today, state, page_url(self.workspace, page), waiting, waits)


def list_stations(facts: LoopFacts) -> tuple[Station, ...]:
    """In the order of the loop. One statement."""
    return (*_ledger_stations(facts), *_model_stations(facts))


def _ledger_stations(facts: LoopFacts) -> tuple[Station, ...]:
    ledger, station = facts.ledger, facts.station
    just_decided = facts.just(ledger.last_decision)
    calculating = any(job.kind == CALCULATE_REWARDS and job.state == JobState.RUNNING for job in facts.rows.jobs)
    return (
        station(
            "serve",
            "agent" if facts.agents == 1 else "agents",
            Count(facts.agents),
            ledger.served_today,
            page="models",
            moving=just_decided and ledger.last_served,
            waiting=Count(facts.unserved),
            waits="without a model",
        ),
        station(
            "record",
            "decisions",
            ledger.decisions,
            ledger.decisions_today,
            page="decisions",
            moving=just_decided,
        ),
        station(
            "feedback",
            "observations",
            ledger.feedback,
            ledger.feedback_today,
            page="decisions",
            moving=facts.just(ledger.last_feedback),
            waiting=Count(ledger.unanswered),
            waits=f"{f'of {ledger.looked_at:,} ' if ledger.look_ended else ''}without feedback",
        ),
        station(
            "reward",
            "rewards",
            ledger.rewards,
            ledger.rewards_today,
            page="rewards",
            moving=calculating or facts.just(ledger.last_reward),
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
_COUNTED = " UNION ALL ".join(
    f"SELECT '{key}', count(*), count(*) FILTER (WHERE {moment} >= %(today)s), max({moment}) FROM {table}"  # noqa: S608
    " WHERE workspace_id = %(workspace)s"
    for key, table, moment in _SMALL
)


def _count_small_tables(facts: LoopFacts) -> dict[str, tuple[int, int, dt.datetime | None]]:
    """Of the tables that stay small: all rows, today's, and the moment of the last, in one statement."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNTED, {"workspace": facts.workspace.id, "today": midnight(facts.now)})
        return {key: (total, today, last) for key, total, today, last in cursor.fetchall()}


def _model_stations(facts: LoopFacts) -> tuple[Station, ...]:
    rows, counted = facts.rows, _count_small_tables(facts)
    unevaluated = sum(not version.evaluated and not version.serves for version in rows.versions)

    def station(key: str, unit: str, page: str, waiting: Count, waits: str, moving: bool = False) -> Station:
        total, today, last = counted[key]
        moving = moving or facts.just(last)
        return facts.station(
            key, unit, Count(total), Count(today), page=page, moving=moving, waiting=waiting, waits=waits
        )

    runs = rows.under_way
    works = any(run.state != RunState.QUEUED for run in runs)
    live = Count(len(rows.live))
    return (
        station("dataset", "datasets", "datasets", facts.ledger.unfrozen, "new rewards"),
        station("train", "runs", "runs", Count(len(runs)), "queued or running", works),
        station("evaluate", "evaluations", "models", Count(unevaluated), "not evaluated"),
        station("register", "versions", "models", Count(len(rows.untried)), "ready for an experiment"),
        station("experiment", "experiments", "experiments", live, "running", bool(live)),
    )
