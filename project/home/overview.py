"""The home page's data, put together: `read_home` is the one entrance, and `project.views` renders what it returns."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from decisions.models import Agent
from jobs.models import Job
from models_registry.models import Alias, AliasName
from project.demo.loop import KIND as DEMO_LOOP
from project.home.counts import count_ledger, midnight
from project.home.items import Event, Item
from project.home.moved import find_moved
from project.home.needs import find_needs
from project.home.rows import Rows, read_rows
from project.home.stations import Sight, Station, list_stations
from project.home.stuck import find_stuck
from training.measures import find_scores
from training.models import Evaluation
from workspaces.models import Workspace

QUICK_POLL_SECONDS = 3
SLOW_POLL_SECONDS = 15
CHAMPIONS = 20
CURVE = 12
JOBS = 5
DEMO_STAYS = dt.timedelta(days=1)
"""A newcomer waits for the demo: how it ended stays in sight."""


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
    poll_seconds: int | None

    @property
    def busy(self) -> bool:
        return self.poll_seconds is not None

    @property
    def approximate(self) -> bool:
        return any(station.total.approximate or station.today.approximate for station in self.stations)

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
    ledger, rows = count_ledger(workspace, now), read_rows(workspace, now)
    champions = tuple(
        Alias.objects.for_workspace(workspace)
        .filter(name=AliasName.CHAMPION)
        .select_related("version__registered_model")
        .order_by("-moved_at")[:CHAMPIONS]
    )
    models = list(Agent.objects.for_workspace(workspace).values_list("registered_model_id", flat=True))
    served = {alias.registered_model_id for alias in champions}
    stuck = find_stuck(workspace, rows, ledger, now, serves=bool(champions))
    unserved = sum(model not in served for model in models)
    sight = Sight(workspace, now, ledger, rows, {item.station for item in stuck}, len(models), unserved)
    demo = Job.objects.for_workspace(workspace).filter(kind=DEMO_LOOP).order_by("-created_at").first()
    return Home(
        first_run=ledger.last_decision is None and not rows.working and demo is None,
        stations=list_stations(sight),
        champions=champions,
        measured=_measured(champions),
        needs=tuple(find_needs(workspace, rows, ledger, now)),
        stuck=tuple(stuck),
        moved=tuple(find_moved(workspace, rows, ledger, midnight(now))),
        working=_working(rows, demo, now),
        experiment=next(iter((*rows.live, *rows.experiments)), None),
        poll_seconds=_poll_seconds(sight),
    )


def _working(rows: Rows, demo: Job | None, now: dt.datetime) -> tuple[Job, ...]:
    over = demo is not None and demo.finished_at is not None and now - demo.finished_at < DEMO_STAYS
    return (*([demo] if demo and over else []), *sorted(rows.working, key=lambda job: job.kind != DEMO_LOOP)[:JOBS])


def _poll_seconds(sight: Sight) -> int | None:
    ledger, rows = sight.ledger, sight.rows
    lately = (ledger.last_decision, ledger.last_feedback, ledger.last_reward)
    if rows.working or rows.under_way or any(sight.just(moment) for moment in lately):
        return QUICK_POLL_SECONDS
    return SLOW_POLL_SECONDS if rows.live else None  # an experiment lasts for days


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
