"""How long feedback takes: from a decision to the first feedback on it, over the last two months.

Experiments whose attribution window is `auto` ask when a phase starts. Decisions are taken from every day alike, since
the newest alone have not had the time to show how long feedback takes.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from django.db import connection
from django.utils import timezone

from decisions.models import Agent
from models_registry.models import RegisteredModel
from workspaces.storage.ids import uuid7_bound

if TYPE_CHECKING:
    from models_registry.statistics.survival import SurvivalCurve

DAYS = 60
A_DAY = 100
"""Decisions of a day and agent that are looked at, its first."""

_LAGS = """
SELECT extract(epoch FROM coalesce(f.first, %(now)s) - d.recorded_at)::float8, f.first IS NOT NULL
  FROM unnest(%(agents)s::uuid[]) AS a(id)
  CROSS JOIN unnest(%(starts)s::uuid[], %(ends)s::uuid[]) AS day(start, until)
  CROSS JOIN LATERAL (
    SELECT id, recorded_at FROM decisions_decision
     WHERE agent_id = a.id AND id >= day.start AND id < day.until AND recorded_at BETWEEN %(since)s AND %(now)s
     ORDER BY id LIMIT %(most)s) d
  CROSS JOIN LATERAL (
    SELECT min(recorded_at) AS first FROM decisions_feedback
     WHERE decision_id = d.id AND recorded_at <= %(now)s) f
"""


def find_feedback_lag(
    model: RegisteredModel, agent: str | None = None, now: dt.datetime | None = None
) -> SurvivalCurve | None:
    """Over every agent that the model serves, or the one with this slug; None without a decision in these days."""
    found = Agent.objects.filter(registered_model=model)
    agents = list((found if agent is None else found.filter(slug=agent)).values_list("id", flat=True))
    moment = now or timezone.now()
    bounds = [uuid7_bound(moment - dt.timedelta(days=day)) for day in range(DAYS, 0, -1)]
    known: dict[str, Any] = {
        "agents": agents,
        "starts": bounds,
        # Ids of clients may lie an hour ahead.
        "ends": [*bounds[1:], uuid7_bound(moment + dt.timedelta(hours=1))],
        "since": moment - dt.timedelta(days=DAYS),
        "now": moment,
        "most": A_DAY,
    }
    with connection.cursor() as cursor:
        cursor.execute(_LAGS, known)
        rows = cursor.fetchall()
    if not rows:
        return None
    # Feedback may arrive before its decision does.
    from models_registry.statistics.survival import kaplan_meier  # numpy, which most commands need not load

    return kaplan_meier([max(0.0, seconds) for seconds, _ in rows], [answered for _, answered in rows])
