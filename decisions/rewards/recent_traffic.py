"""What a model's agents met lately: new units, rewards, and how often a decision was bad by a guardrail's measure.

The estimate of an experiment's time asks (`models_registry.experiments.outlook`). Units are counted over the newest
decisions; rewards and measures are of some decisions of every day.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db import connection
from django.utils import timezone

from decisions.models import Agent
from models_registry.experiments.ledger import Traffic
from models_registry.models import GuardrailMeasure, RegisteredModel
from workspaces.errors import FieldFault, InvalidInput
from workspaces.storage.ids import uuid7_bound

if TYPE_CHECKING:
    from models_registry.experiments.guardrails import GuardrailPlan

DAYS = 14
PARTS = 28
NEWEST = 100_000
"""Decisions of an agent over which its units are counted, at most."""
A_DAY = 100
"""Decisions of a day and agent that are looked at closely, its first."""
LEAST_UNITS = 20
LEAST = dt.timedelta(hours=1)
"""Fewer units, or less time, say nothing about the days to come."""

_FIRSTS = """
WITH recent AS MATERIALIZED (
  SELECT coalesce(d.unit, d.id::text) AS unit, d.recorded_at
    FROM unnest(%(agents)s::uuid[]) AS a(id)
    CROSS JOIN LATERAL (
      SELECT id, unit, recorded_at FROM decisions_decision
       WHERE agent_id = a.id AND id >= %(start)s AND policy_name IS NULL AND recorded_at BETWEEN %(since)s AND %(now)s
       ORDER BY id DESC LIMIT %(most)s) d)
SELECT min(recorded_at) FROM recent GROUP BY unit
"""
_LOOKED_AT = """
SELECT r.value, d.latency_ms, d.cost, c.assigned_id IS DISTINCT FROM c.served_id AS fell_back, c.unusable_answers > 0
  FROM unnest(%(agents)s::uuid[]) AS a(id)
  CROSS JOIN unnest(%(starts)s::uuid[], %(ends)s::uuid[]) AS day(start, until)
  CROSS JOIN LATERAL (
    SELECT id, latency_ms, cost FROM decisions_decision
     WHERE agent_id = a.id AND id >= day.start AND id < day.until AND policy_name IS NULL
       AND recorded_at BETWEEN %(since)s AND %(now)s
     ORDER BY id LIMIT %(most)s) d
  LEFT JOIN LATERAL (
    SELECT value FROM decisions_reward
     WHERE decision_id = d.id
       AND spec_id = (SELECT id FROM decisions_rewardspec WHERE agent_id = a.id ORDER BY number DESC LIMIT 1)
     ORDER BY version DESC LIMIT 1) r ON true
  LEFT JOIN models_registry_call c ON c.id = d.id
"""


def find_recent_traffic(
    model: RegisteredModel,
    guardrails: Sequence[GuardrailPlan],
    agent: str | None = None,
    now: dt.datetime | None = None,
) -> Traffic | None:
    """Over every agent that the model serves, or the one with this slug, in the last 14 days; None below 20 units or an
    hour. Raises InvalidInput."""
    moment = now or timezone.now()
    agents = dict(Agent.objects.filter(registered_model=model).values_list("slug", "id"))
    if agent is not None and agent not in agents:
        fault = FieldFault("agent", f"{agent!r} does not use {model.name}", "the slug of an agent that uses the model")
        raise InvalidInput("The experiment cannot be estimated.", faults=[fault])
    bounds = [uuid7_bound(moment - dt.timedelta(days=day)) for day in range(DAYS, 0, -1)]
    known: dict[str, Any] = {
        "agents": list(agents.values()) if agent is None else [agents[agent]],
        "start": bounds[0],
        "starts": bounds,
        # Ids of clients may lie an hour ahead.
        "ends": [*bounds[1:], uuid7_bound(moment + dt.timedelta(hours=1))],
        "since": moment - dt.timedelta(days=DAYS),
        "now": moment,
    }
    with connection.cursor() as cursor:
        cursor.execute(_FIRSTS, known | {"most": NEWEST})
        firsts = sorted(first for (first,) in cursor.fetchall())
        if len(firsts) < LEAST_UNITS or moment - firsts[0] < LEAST:
            return None
        cursor.execute(_LOOKED_AT, known | {"most": A_DAY})
        rows = cursor.fetchall()
    from models_registry.statistics.time_to_verdict import Arrivals  # numpy, which most commands need not load

    watched = (moment - firsts[0]).total_seconds()
    reached = _count_by_part([(first - firsts[0]).total_seconds() for first in firsts], watched)
    if reached[-1] == reached[PARTS // 2 - 1]:
        return None  # nobody new in the later half
    rewards = [value for value, *_ in rows if value is not None]
    return Traffic(
        Arrivals(watched, reached), len(rows), _variance(rewards), _find_bad(guardrails, [row[1:] for row in rows])
    )


def _count_by_part(moments: Sequence[float], watched: float) -> tuple[float, ...]:
    counts, place = [], 0
    for part in range(1, PARTS + 1):
        while place < len(moments) and moments[place] <= watched * part / PARTS:
            place += 1
        counts.append(float(place))
    return (*counts[:-1], float(len(moments)))


def _variance(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _find_bad(guardrails: Sequence[GuardrailPlan], rows: Sequence[tuple[Any, ...]]) -> Mapping[str, float]:
    """By measure, the share of the decisions with something to measure; those without any are left out."""
    bad: dict[str, float] = {}
    for one in guardrails:
        if one.measure == GuardrailMeasure.ERROR_RATE:
            found = [fell_back for _, _, fell_back, _ in rows]
        elif one.measure == GuardrailMeasure.LATENCY and one.budget_ms is not None:
            found = [latency > one.budget_ms for latency, *_ in rows if latency is not None]
        elif one.measure == GuardrailMeasure.COST and one.budget_cost is not None:
            found = [float(cost) > one.budget_cost for _, cost, *_ in rows if cost is not None]
        elif one.measure == GuardrailMeasure.INVALID_ANSWERS:
            found = [invalid for *_, invalid in rows if invalid is not None]
        else:
            continue
        if found:
            bad[one.measure] = sum(found) / len(found)
    return bad
