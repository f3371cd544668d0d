"""The home page's data, put together: `read_home` is the one entrance, and `project.pages.views` renders what it
returns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from decisions.models import Agent
from decisions.queries.first_labels import FirstLabels, find_first_labels
from jobs.models import Job
from models_registry.models import Alias, AliasName
from project.demo.loop import KIND as DEMO_LOOP
from project.pages.home.activity import list_activity
from project.pages.home.comparison import Comparison, compare
from project.pages.home.counts import count_ledger, midnight
from project.pages.home.items import Event, Item
from project.pages.home.needs import find_needs
from project.pages.home.rows import Rows, read_rows
from project.pages.home.stations import LoopFacts, Station, list_stations
from project.pages.home.stuck import find_stuck
from training.loops.first_model.services import KIND as FIRST_MODEL
from workspaces.models import Workspace

QUICK_POLL_SECONDS = 3
SLOW_POLL_SECONDS = 15
CHAMPIONS = 20
JOBS = 5
WAITING = 5
"""So many agents without a model are looked at."""
DEMO_STAYS = dt.timedelta(days=1)
"""A newcomer waits for the demo: how it ended stays in sight."""


@dataclass(frozen=True, slots=True)
class Home:
    """Everything the home page shows. `poll_seconds` is None when nothing moves."""

    first_run: bool
    stations: tuple[Station, ...]
    champions: tuple[Alias, ...]
    comparison: Comparison
    first: tuple[FirstLabels, ...]
    """Of agents that no model answers for: whether people's verdicts suffice for the first one."""
    needs: tuple[Item, ...]
    stuck: tuple[Item, ...]
    activity: tuple[Event, ...]
    working: tuple[Job, ...]
    demo: Mapping[str, Any] | None
    """What the demo showed, for a day after its end."""
    poll_seconds: int | None

    @property
    def busy(self) -> bool:
        return self.poll_seconds is not None

    @property
    def attention(self) -> list[tuple[Item, bool]]:
        """What is broken (True), then what a person should do next."""
        return [*((item, True) for item in self.stuck), *((item, False) for item in self.needs)]

    @property
    def approximate(self) -> bool:
        return any(station.total.approximate or station.today.approximate for station in self.stations)


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
    agents = list(Agent.objects.for_workspace(workspace).order_by("name"))
    served = {alias.registered_model_id for alias in champions}
    waiting = [agent for agent in agents if agent.registered_model_id not in served]
    under_way = {job.payload["agent"] for job in rows.working if job.kind == FIRST_MODEL}
    first = find_first_labels([agent for agent in waiting[:WAITING] if agent.slug not in under_way])
    stuck = find_stuck(workspace, rows, ledger, now, serves=bool(champions))
    facts = LoopFacts(workspace, now, ledger, rows, {item.station for item in stuck}, len(agents), len(waiting))
    demo = Job.objects.for_workspace(workspace).filter(kind=DEMO_LOOP).order_by("-created_at").first()
    return Home(
        first_run=ledger.last_decision is None and not rows.working and demo is None,
        stations=list_stations(facts),
        champions=champions,
        comparison=compare(champions, (*rows.live, *rows.experiments)),
        first=tuple(first.values()),
        needs=tuple(find_needs(workspace, rows, ledger, now, list(first.values()) if champions else [])),
        stuck=tuple(stuck),
        activity=tuple(list_activity(workspace, rows, ledger, midnight(now))),
        working=_working(rows, demo, now),
        demo=demo.result if demo is not None and demo.result and _just_over(demo, now) else None,
        poll_seconds=_poll_seconds(facts),
    )


def _working(rows: Rows, demo: Job | None, now: dt.datetime) -> tuple[Job, ...]:
    """Those under way, and a demo that ended without a result, for its reason."""
    failed = demo is not None and not demo.result and _just_over(demo, now)
    return (*([demo] if demo and failed else []), *sorted(rows.working, key=lambda job: job.kind != DEMO_LOOP)[:JOBS])


def _just_over(demo: Job, now: dt.datetime) -> bool:
    return demo.finished_at is not None and now - demo.finished_at < DEMO_STAYS


def _poll_seconds(facts: LoopFacts) -> int | None:
    ledger, rows = facts.ledger, facts.rows
    lately = (ledger.last_decision, ledger.last_feedback, ledger.last_reward)
    if rows.working or rows.under_way or any(facts.just(moment) for moment in lately):
        return QUICK_POLL_SECONDS
    return SLOW_POLL_SECONDS if rows.live else None  # an experiment lasts for days
