"""The home page's data: the loop as it stands in one workspace, as plain frozen values.

`read_home` is the one entrance; `project.views` renders what it returns. The large tables are read by
`project.ledger_counts`, the lists of what is stuck and who is needed are made by `project.attention`.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.urls import reverse
from django.utils import timezone

from decisions.models import Agent
from decisions.tasks import RECKON_REWARDS
from jobs.models import Job, JobState
from models_registry.models import Alias, AliasName, ExperimentState
from project.attention import (
    Event,
    Item,
    Rows,
    find_moved,
    find_needs,
    find_stuck,
    is_under_way,
    passed_untried,
    read_rows,
)
from project.demo.loop import KIND as DEMO_LOOP
from project.ledger_counts import DAYS, Count, LedgerCounts, count_ledger, midnight
from training.measures import find_scores
from training.models import Evaluation
from workspaces.models import Workspace

JUST_NOW = dt.timedelta(seconds=60)
"""A station that saw something this lately is moving."""
QUICK_POLL_SECONDS = 3
SLOW_POLL_SECONDS = 15
CHAMPIONS = 20
CURVE = 12
JOBS = 5

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
IDLE, MOVING, WAITING, STUCK = "idle", "moving", "waiting", "stuck"


@dataclass(frozen=True, slots=True)
class Station:
    """One place of the loop. `waiting` is what lies before it; `series` the last DAYS days, today last, or empty."""

    key: str
    title: str
    total: Count
    unit: str
    today: Count
    waiting: Count
    waits: str
    state: str
    url: str
    series: tuple[int | None, ...] = ()

    @property
    def icon(self) -> str:
        return ICONS[self.key]

    @property
    def known(self) -> list[int]:
        """The counted days of the series, or nothing where a line would say nothing."""
        found = [value for value in self.series if value is not None]
        return found if any(found) else []


@dataclass(frozen=True, slots=True)
class Measured:
    """One version on held-out inputs: accuracy and reward in [0, 1], their 95 % intervals."""

    number: int
    accuracy: Mapping[str, float]
    reward: Mapping[str, float]
    serves: bool


@dataclass(frozen=True, slots=True)
class Home:
    """Everything the home page shows. `poll_seconds` is None when nothing moves."""

    first_run: bool
    stations: tuple[Station, ...]
    champions: tuple[Alias, ...]
    measured: tuple[Measured, ...]
    needs: tuple[Item, ...]
    stuck: tuple[Item, ...]
    moved: tuple[Event, ...]
    working: tuple[Job, ...]
    experiment: Any
    approximate: bool
    poll_seconds: int | None

    @property
    def busy(self) -> bool:
        return self.poll_seconds is not None

    @property
    def curve(self) -> list[float]:
        """The mean accuracy of each measured version."""
        return [one.accuracy["mean"] for one in self.measured] if len(self.measured) > 1 else []

    @property
    def champion_measured(self) -> Measured | None:
        return next((one for one in self.measured if one.serves), None)


def read_home(workspace: Workspace, now: dt.datetime | None = None) -> Home:
    """A fixed number of statements, whatever the workspace holds."""
    now = now or timezone.now()
    today = midnight(now)
    ledger = count_ledger(workspace, now)
    rows = read_rows(workspace, now)
    days = _small_tables(workspace, today)
    champions = tuple(
        Alias.objects.for_workspace(workspace)
        .filter(name=AliasName.CHAMPION)
        .select_related("version__registered_model")
        .order_by("-moved_at")[:CHAMPIONS]
    )
    stuck = (*_orphans(ledger), *find_stuck(workspace, rows, now, serves=bool(champions)))
    needs = tuple(
        find_needs(
            workspace,
            rows,
            now,
            of=f" of the newest {ledger.looked_at:,}" if ledger.look_ended else "",
            unanswered=ledger.unanswered,
        )
    )
    count = ledger.rewards_today
    moved = find_moved(
        workspace,
        rows,
        today,
        rewards=f"{count.value:,}{'+' if count.more else ''}" if count else "",
        last_reward=ledger.last_reward,
    )
    agents, unserved = _agents(workspace, champions)
    stations = _stations(_Sight(workspace, now, ledger, rows, days, {i.station for i in stuck}, agents, unserved))
    running = [job for job in rows.jobs if job.state in (JobState.QUEUED, JobState.RUNNING)]
    demo = Job.objects.for_workspace(workspace).filter(kind=DEMO_LOOP).order_by("-created_at").first()
    working = [demo] if demo is not None and (demo.is_terminal and _lately_over(demo, now)) else []
    working += sorted(running, key=lambda job: job.kind != DEMO_LOOP)[:JOBS]
    return Home(
        first_run=ledger.last_decision is None and not running and demo is None,
        stations=stations,
        champions=champions,
        measured=_measured(champions),
        needs=needs,
        stuck=stuck,
        moved=tuple(moved),
        working=tuple(working),
        experiment=min(rows.experiments, key=lambda one: one.state != ExperimentState.RUNNING, default=None),
        approximate=any(s.total.approximate or s.today.approximate for s in stations),
        poll_seconds=_poll(ledger, rows, running, now),
    )


def _orphans(ledger: LedgerCounts) -> list[Item]:
    if not ledger.orphans:
        return []
    why = "Feedback may come early, but these decisions have not followed for an hour. Does the app send other ids?"
    what = f"{ledger.orphans:,} pieces of feedback on decisions that are not here"
    return [Item("feedback", what, why, ledger.orphan_since)]


def _lately_over(job: Job, now: dt.datetime) -> bool:
    """A newcomer waits for the demo: how it ended stays in sight for a day."""
    return job.finished_at is not None and now - job.finished_at < dt.timedelta(days=1)


def _poll(ledger: LedgerCounts, rows: Rows, running: Sequence[Job], now: dt.datetime) -> int | None:
    lately = (ledger.last_decision, ledger.last_feedback, ledger.last_reward)
    if running or any(is_under_way(run) for run in rows.runs) or any(_just(moment, now) for moment in lately):
        return QUICK_POLL_SECONDS
    if any(experiment.state == ExperimentState.RUNNING for experiment in rows.experiments):
        return SLOW_POLL_SECONDS  # an experiment lasts for days
    return None


def _just(moment: dt.datetime | None, now: dt.datetime) -> bool:
    return moment is not None and now - moment < JUST_NOW


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


@dataclass(frozen=True, slots=True)
class _Days:
    """A small table by day."""

    total: int
    today: int
    series: tuple[int, ...]
    last: dt.datetime | None


def _small_tables(workspace: Workspace, today: dt.datetime) -> dict[str, _Days]:
    """Totals, today and the last days of the tables that stay small, in one statement."""
    counts: dict[str, dict[dt.date, int]] = {key: {} for key, _, _ in _SMALL}
    last: dict[str, dt.datetime] = {}
    with connection.cursor() as cursor:
        cursor.execute(_BY_DAY, {"workspace": workspace.id})
        for key, day, count, newest in cursor.fetchall():
            counts[key][day] = count
            last[key] = max(newest, last.get(key, newest))
    days = [today.date() - dt.timedelta(days=back) for back in range(DAYS - 1, -1, -1)]
    return {
        key: _Days(sum(found.values()), found.get(days[-1], 0), tuple(found.get(day, 0) for day in days), last.get(key))
        for key, found in counts.items()
    }


def _agents(workspace: Workspace, champions: Sequence[Alias]) -> tuple[int, int]:
    """How many agents there are, and how many of them have no version to answer by."""
    models = list(Agent.objects.for_workspace(workspace).values_list("registered_model_id", flat=True))
    served = {alias.registered_model_id for alias in champions}
    return len(models), sum(model not in served for model in models)


@dataclass(frozen=True, slots=True)
class _Sight:
    """What the stations are made of."""

    workspace: Workspace
    now: dt.datetime
    ledger: LedgerCounts
    rows: Rows
    days: Mapping[str, _Days]
    stuck: set[str]
    agents: int
    unserved: int

    def state(self, key: str, *, moving: bool, waiting: Count) -> str:
        if key in self.stuck:
            return STUCK
        if moving:
            return MOVING
        return WAITING if waiting else IDLE

    def works(self, *kinds: str) -> bool:
        return any(job.kind in kinds and job.state == JobState.RUNNING for job in self.rows.jobs)

    def page(self, name: str) -> str:
        return reverse(f"pages:{name}", args=[self.workspace.slug])


def _stations(sight: _Sight) -> tuple[Station, ...]:
    return (*_ledger_stations(sight), *_model_stations(sight))


def _ledger_stations(sight: _Sight) -> tuple[Station, ...]:
    ledger, now = sight.ledger, sight.now
    just_decided = _just(ledger.last_decision, now)
    unserved, unanswered = Count(sight.unserved), Count(ledger.unanswered)
    decisions = sight.page("decisions")
    reckoning = sight.works(RECKON_REWARDS) or _just(ledger.last_reward, now)
    of = f"of {ledger.looked_at:,} " if ledger.look_ended else ""
    return (
        Station(
            "serve",
            "Serve",
            Count(sight.agents),
            "agent" if sight.agents == 1 else "agents",
            ledger.served_today,
            unserved,
            "without a model",
            sight.state("serve", moving=just_decided and ledger.last_served, waiting=unserved),
            sight.page("models"),
        ),
        Station(
            "record",
            "Record",
            ledger.decisions,
            "decisions",
            ledger.decisions_today,
            Count(0),
            "",
            sight.state("record", moving=just_decided, waiting=Count(0)),
            decisions,
            ledger.decision_series,
        ),
        Station(
            "feedback",
            "Feedback",
            ledger.feedback,
            "observations",
            ledger.feedback_today,
            unanswered,
            f"{of}without any",
            sight.state("feedback", moving=_just(ledger.last_feedback, now), waiting=unanswered),
            decisions,
            ledger.feedback_series,
        ),
        Station(
            "reward",
            "Reward",
            ledger.rewards,
            "rewards",
            ledger.rewards_today,
            ledger.unreckoned,
            "to reckon",
            sight.state("reward", moving=reckoning, waiting=ledger.unreckoned),
            decisions,
        ),
    )


def _model_stations(sight: _Sight) -> tuple[Station, ...]:
    ledger, rows, now, runs = sight.ledger, sight.rows, sight.now, sight.page("runs")
    under_way = [run for run in rows.runs if is_under_way(run)]
    unevaluated = Count(sum(not version.evaluated and not version.serves for version in rows.versions))
    tryable = Count(len(passed_untried(rows.versions)))
    live = Count(sum(experiment.state == ExperimentState.RUNNING for experiment in rows.experiments))

    def station(key: str, title: str, unit: str, waiting: Count, waits: str, url: str, *, moving: bool) -> Station:
        days = sight.days[key]
        moving = moving or _just(days.last, now)
        state = sight.state(key, moving=moving, waiting=waiting)
        return Station(
            key, title, Count(days.total), unit, Count(days.today), waiting, waits, state, url, tuple(days.series)
        )

    return (
        station("dataset", "Dataset", "datasets", ledger.unfrozen, "new rewards", runs, moving=False),
        station(
            "train",
            "Train",
            "runs",
            Count(len(under_way)),
            "queued or running",
            runs,
            moving=any(run.state != "queued" for run in under_way),
        ),
        station(
            "evaluate",
            "Evaluate",
            "evaluations",
            unevaluated,
            "not measured",
            sight.page("models"),
            moving=False,
        ),
        station("register", "Register", "versions", tryable, "to try", sight.page("models"), moving=False),
        station(
            "experiment",
            "Experiment",
            "experiments",
            live,
            "running",
            sight.page("experiments"),
            moving=bool(live),
        ),
    )


def _measured(champions: Sequence[Alias]) -> tuple[Measured, ...]:
    """The newest CURVE measured versions of the model whose champion changed last, oldest first."""
    if not champions:
        return ()
    champion = champions[0]
    found = (
        Evaluation.objects.filter(version__registered_model=champion.registered_model_id)
        .order_by("-version__number")
        .values_list("version_id", "version__number", "against_id", "against__number")[:CURVE]
    )
    numbers: dict[uuid.UUID, int] = {}
    for version, number, against, against_number in found:
        numbers |= {version: number} | ({} if against is None else {against: against_number})
    scores = find_scores(numbers)
    return tuple(
        Measured(number, scores[version]["accuracy"], scores[version]["reward"], version == champion.version_id)
        for version, number in sorted(numbers.items(), key=lambda pair: pair[1])
        if {"accuracy", "reward"} <= scores.get(version, {}).keys()
    )


__all__ = ["Event", "Home", "Item", "Measured", "Station", "read_home"]
