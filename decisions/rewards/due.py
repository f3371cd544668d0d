"""Finds decisions whose reward may have changed, and keeps them due until their reward is calculated.

A spec remembers up to when the ledger was searched. Each search looks at what was recorded since, in every source that
the spec's components read, and marks decisions due in the same transaction. Marking one that has not changed costs a
look and writes no reward.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection, transaction

from decisions.models import RewardProgress, RewardSpec
from decisions.models.episode import SAME_QUERY
from decisions.rewards.judged import find_turned
from decisions.rewards.valuing import Plan

# A transaction that began earlier may commit later: look back further than any of ours lasts.
OVERLAP = dt.timedelta(minutes=10)

_FEEDBACK = """
SELECT DISTINCT d.id FROM decisions_feedback f JOIN decisions_decision d ON d.id = f.decision_id
 WHERE f.workspace_id = %(workspace)s AND f.decision_id IS NOT NULL AND d.agent_id = %(agent)s
   AND (%(since)s::timestamptz IS NULL OR f.recorded_at > %(since)s)
"""
# Feedback may be there before its decision.
_HEARD_OF_EARLIER = """
SELECT d.id FROM decisions_decision d
 WHERE d.agent_id = %(agent)s AND d.recorded_at > %(since)s
   AND EXISTS (SELECT 1 FROM decisions_feedback f WHERE f.decision_id = d.id AND f.workspace_id = d.workspace_id)
"""
_ARRIVED = """
SELECT d.id FROM decisions_decision d
 WHERE d.agent_id = %(agent)s AND (%(since)s::timestamptz IS NULL OR d.recorded_at > %(since)s)
"""
_STEPS = """
SELECT s.decision_id FROM decisions_step s JOIN decisions_decision d ON d.id = s.decision_id
 WHERE s.workspace_id = %(workspace)s AND s.recorded_at > %(since)s AND d.agent_id = %(agent)s
UNION
SELECT d.id FROM decisions_decision d
 WHERE d.agent_id = %(agent)s AND d.episode_id IN (
   SELECT s.episode_id FROM decisions_step s
    WHERE s.workspace_id = %(workspace)s AND s.recorded_at > %(since)s
   UNION
   -- A step may name only one of the episode's decisions.
   SELECT o.episode_id FROM decisions_step s JOIN decisions_decision o ON o.id = s.decision_id
    WHERE s.workspace_id = %(workspace)s AND s.recorded_at > %(since)s)
"""
_EPISODES = """
SELECT d.id FROM decisions_episode e JOIN decisions_decision d ON d.episode_id = e.id
 WHERE e.workspace_id = %(workspace)s AND e.changed_at > %(since)s AND d.agent_id = %(agent)s
"""
_HEARD_OF_EPISODES = """
SELECT d.id FROM decisions_feedback f JOIN decisions_decision d ON d.episode_id = f.episode_id
 WHERE f.workspace_id = %(workspace)s AND f.episode_id IS NOT NULL AND f.recorded_at > %(since)s
   AND d.agent_id = %(agent)s
"""
# Where a decision's reward depends on its place, all of its episode; where episodes are compared, all of the query.
_OF_THE_EPISODE = """
SELECT d.id FROM decisions_decision d WHERE d.agent_id = %(agent)s AND d.episode_id IN (
  SELECT o.episode_id FROM decisions_decision o WHERE o.recorded_at > %(since)s AND o.workspace_id = %(workspace)s)
"""
_OF_THE_QUERY = f"""
SELECT d.id FROM decisions_decision n
  JOIN decisions_episode e ON e.id = n.episode_id AND e.query <> ''
  JOIN decisions_episode o ON o.agent_id = e.agent_id AND o.query <> ''
       AND {SAME_QUERY.format("o")} = {SAME_QUERY.format("e")}
  JOIN decisions_decision d ON d.episode_id = o.id AND d.agent_id = %(agent)s
 WHERE n.id IN ({{changed}})
"""  # noqa: S608 - our own names
# The window of these closed since the last search.
_CLOSED = """
SELECT d.id FROM unnest(%(windows)s::float8[]) AS w(seconds) JOIN decisions_decision d
    ON d.recorded_at > %(since)s - make_interval(secs => w.seconds)
   AND d.recorded_at <= %(now)s - make_interval(secs => w.seconds)
 WHERE d.agent_id = %(agent)s
"""
# What these judges said counts since the last search, or ceased to count.
_JUDGED = """
SELECT d.id FROM decisions_feedback f JOIN decisions_decision d ON d.id = f.decision_id
 WHERE f.workspace_id = %(workspace)s AND f.source = 'llm' AND f.metric = ANY(%(turned)s) AND d.agent_id = %(agent)s
"""
_MARK = """
INSERT INTO decisions_rewarddue (workspace_id, spec_id, decision_id)
SELECT %(workspace)s, %(spec)s, found.id FROM ({found}) AS found(id) ORDER BY 3
ON CONFLICT DO NOTHING
"""
_SAMPLE = """
WITH found(id) AS MATERIALIZED ({found})
SELECT id, (SELECT count(*) FROM found) FROM found
 ORDER BY hashtextextended(id::text, %(seed)s::bigint), id LIMIT %(most)s
"""


def mark_due(spec: RewardSpec, plan: Plan) -> None:
    """Everything that changed since the spec's last search; at first everything that can have a reward."""
    with transaction.atomic(), connection.cursor() as cursor:
        RewardProgress.objects.get_or_create(spec=spec, defaults={"workspace_id": spec.workspace_id})
        # Two searches at once: the second waits, and begins where the first has ended.
        progress = RewardProgress.objects.select_for_update().get(spec=spec)
        cursor.execute("SELECT clock_timestamp()")
        now = cursor.fetchone()[0]
        parameters = _parameters(spec, plan, progress.searched_until, now)
        cursor.execute(_MARK.format(found=_found(plan, parameters)), parameters)
        RewardProgress.objects.filter(spec=spec).update(searched_until=now)


def find_due(spec: RewardSpec, plan: Plan, *, most: int) -> list[uuid.UUID]:
    """Ids of decisions that are due, or would be after a search, at most so many; changes nothing."""
    return [row[0] for row in _ask(spec, plan, "DISTINCT id", most=most)]


def count_due(spec: RewardSpec, plan: Plan) -> int:
    """How many decisions are due, or would be after a search."""
    return int(_ask(spec, plan, "count(DISTINCT id)", most=None)[0][0])


def sample_rewardable(spec: RewardSpec, plans: Sequence[Plan], *, most: int, seed: int) -> tuple[list[uuid.UUID], int]:
    """Decisions of the spec's agent that can have a reward by one of the plans, at most so many of them, and how many
    there are. The seed says which are taken, in the order of their ids; the same again are the same."""
    everything = next((plan for plan in plans if plan.without_feedback), plans[0])
    parameters = {**_parameters(spec, everything, None, dt.datetime.now(dt.UTC)), "most": most, "seed": seed}
    with connection.cursor() as cursor:
        cursor.execute(_SAMPLE.format(found=_found(everything, parameters)), parameters)
        rows = cursor.fetchall()
    return sorted(row[0] for row in rows), rows[0][1] if rows else 0


def _ask(spec: RewardSpec, plan: Plan, what: str, *, most: int | None) -> list[Any]:
    since = RewardProgress.objects.filter(spec=spec).values_list("searched_until", flat=True).first()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        parameters = _parameters(spec, plan, since, cursor.fetchone()[0])
        marked = "SELECT decision_id FROM decisions_rewarddue WHERE spec_id = %(spec)s"
        cursor.execute(
            f"SELECT {what} FROM ({marked} UNION ALL ({_found(plan, parameters)})) AS found(id) LIMIT %(most)s",  # noqa: S608
            {**parameters, "most": most},
        )
        return list(cursor.fetchall())


def _found(plan: Plan, parameters: Mapping[str, Any]) -> str:
    """One query for all sources that the plan reads."""
    if parameters["since"] is None:
        return _ARRIVED if plan.without_feedback else _FEEDBACK
    sources: Sequence[str] = [_FEEDBACK, _ARRIVED if plan.without_feedback else _HEARD_OF_EARLIER]
    if "trace" in plan.reads:
        sources = [*sources, _STEPS, _EPISODES, _HEARD_OF_EPISODES]
    if plan.shares_credit:
        sources = [*sources, _OF_THE_EPISODE]
    if plan.windows:
        sources = [*sources, _CLOSED]
    if parameters["turned"]:
        sources = [*sources, _JUDGED]
    changed = " UNION ".join(f"({source})" for source in sources)
    return f"({changed}) UNION ({_OF_THE_QUERY.format(changed=changed)})" if plan.compares else changed


def _parameters(spec: RewardSpec, plan: Plan, since: dt.datetime | None, now: dt.datetime) -> dict[str, Any]:
    back = None if since is None else since - OVERLAP
    return {
        "workspace": spec.workspace_id,
        "agent": spec.agent_id,
        "spec": spec.id,
        "since": back,
        "turned": find_turned(spec, back),
        "now": now,
        "windows": list(plan.windows),
    }
