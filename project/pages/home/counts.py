"""How much the ledger's three large tables hold, moved today, and wait for: bounded work whatever their size.

The home page asks this at every look, and while something moves every few seconds. No statement here reads a large
table from end to end: today is a range of uuid7 ids or of `recorded_at`, waiting is looked for among the newest rows,
and a total beyond what is quickly counted is the planner's own estimate, which `Count.approximate` says.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.utils import timezone

from decisions.models.verdicts import WITHDRAWN
from workspaces.models import Workspace
from workspaces.storage.ids import uuid7_bound

LOOK = 2_000
"""What waits is looked for among this many of the newest decisions, and of the newest feedback."""
QUICK_BYTES = 8 * 1024 * 1024
"""Feedback and rewards are counted while their table (all partitions, without indexes) is at most this large."""
QUICK_ROWS = 10_000
"""Decisions are counted by their index up to this many."""
MOST_TODAY = 100_000
# Feedback may be early; an hour later its decision should be there.
EARLY = dt.timedelta(hours=1)

_DECISION, _FEEDBACK, _REWARD = "decisions_decision", "decisions_feedback", "decisions_reward"


@dataclass(frozen=True, slots=True)
class Count:
    """`more`: counting stopped at `value`. `approximate`: an estimate. At most one of them."""

    value: int
    more: bool = False
    approximate: bool = False

    @classmethod
    def up_to(cls, most: int, found: int) -> Count:
        return cls(min(found, most), more=found > most)

    def at_least(self, known: int) -> Count:
        """With what was counted of it: an estimate that is written as less is taken for that, or more."""
        return Count(known, more=True) if self.approximate and self._rounded < known else self

    @property
    def _rounded(self) -> int:
        return round(self.value, min(0, 2 - len(str(self.value))))

    def __bool__(self) -> bool:
        return self.value > 0

    def __str__(self) -> str:
        """As a page writes it: 1,234, 5,000+, or two significant digits of an estimate: ≈ 1,200,000."""
        if self.approximate:
            return f"≈ {self._rounded:,}"
        return f"{self.value:,}{'+' if self.more else ''}"


@dataclass(frozen=True, slots=True)
class LedgerCounts:
    """Numbers of one workspace."""

    decisions: Count
    feedback: Count
    rewards: Count
    decisions_today: Count
    served_today: Count
    feedback_today: Count
    rewards_today: Count
    looked_at: int  # of the newest decisions, at most LOOK
    unanswered: int  # of those, without any feedback, or with a label's that was taken back
    unread: Count  # feedback that no calculation has read yet
    orphans: int  # feedback older than EARLY whose decision is not there
    orphan_since: dt.datetime | None
    unfrozen: Count  # rewards since the agent's newest dataset
    last_decision: dt.datetime | None  # by the server's clock
    last_served: bool
    last_feedback: dt.datetime | None
    last_reward: dt.datetime | None

    @property
    def look_ended(self) -> bool:
        """There may be more decisions than were looked at."""
        return self.looked_at >= LOOK


def midnight(now: dt.datetime) -> dt.datetime:
    """The start of `now`'s day, UTC."""
    return now.astimezone(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def count_ledger(workspace: Workspace, now: dt.datetime | None = None) -> LedgerCounts:
    """Eight statements or so."""
    now = now or timezone.now()
    today = midnight(now)
    known = {"workspace": workspace.id, "today": today, "today_id": uuid7_bound(today), "now": now}
    totals = _totals(workspace.id)
    decisions_today = _bounded(_DECISION, "id >= %(today_id)s", known, MOST_TODAY)
    feedback_today = _bounded(_FEEDBACK, "recorded_at >= %(today)s", known, MOST_TODAY)
    looked_at, unanswered, made_today, served_today, last_decision, last_served = _row(_NEWEST, known)
    if made_today == looked_at == LOOK:  # the look ends within today: its share stands for the day
        served = Count(round(decisions_today.value * served_today / LOOK), approximate=True)
    else:
        served = Count(served_today)
    read, unread, orphans, orphan_since, last_feedback = _row(_UNREAD, known)
    rewards_today, more_today, unfrozen, more_unfrozen, last_reward = _row(_REWARDED, known)
    return LedgerCounts(
        decisions=totals[_DECISION].at_least(decisions_today.value),
        feedback=totals[_FEEDBACK].at_least(feedback_today.value),
        rewards=totals[_REWARD].at_least(rewards_today),
        decisions_today=decisions_today,
        served_today=served,
        feedback_today=feedback_today,
        rewards_today=Count(rewards_today, more=more_today),
        looked_at=looked_at,
        unanswered=unanswered,
        unread=Count(unread, more=unread == read == LOOK),
        orphans=orphans,
        orphan_since=orphan_since,
        unfrozen=Count(unfrozen, more=more_unfrozen),
        last_decision=last_decision,
        last_served=bool(last_served),
        last_feedback=last_feedback,
        last_reward=last_reward,
    )


def count_unread(workspace: Workspace, now: dt.datetime | None = None) -> Count:
    """Feedback of the workspace that no calculation of rewards has read yet. One statement."""
    read, unread, *_ = _row(_UNREAD, {"workspace": workspace.id, "now": now or timezone.now()})
    return Count(unread, more=unread == read == LOOK)


def _row(statement: str, parameters: Mapping[str, Any]) -> Sequence[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchone()


def _bounded(table: str, condition: str, parameters: Mapping[str, Any], most: int) -> Count:
    statement = (  # names and conditions are this module's own
        f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE workspace_id = %(workspace)s AND {condition}"  # noqa: S608
        " LIMIT %(limit)s) found"
    )
    return Count.up_to(most, _row(statement, {**parameters, "limit": most + 1})[0])


_SIZES = """
SELECT i.inhparent::regclass::text, sum(pg_relation_size(i.inhrelid))::bigint FROM pg_inherits i
 WHERE i.inhparent IN ('decisions_feedback'::regclass, 'decisions_reward'::regclass) GROUP BY 1
"""


def _totals(workspace_id: uuid.UUID) -> dict[str, Count]:
    """Rows of the workspace by table: counted where that is quick, else what the planner expects."""
    quick = _bounded(_DECISION, "true", {"workspace": workspace_id}, QUICK_ROWS)
    found = {_DECISION: _estimate(_DECISION, workspace_id) if quick.more else quick}
    with connection.cursor() as cursor:
        cursor.execute(_SIZES)
        sizes = dict(cursor.fetchall())
    for table in (_FEEDBACK, _REWARD):
        if sizes[table] <= QUICK_BYTES:
            rows = _row(f"SELECT count(*) FROM {table} WHERE workspace_id = %(id)s", {"id": workspace_id})  # noqa: S608
            found[table] = Count(rows[0])
        else:
            found[table] = _estimate(table, workspace_id)
    return found


def _estimate(table: str, workspace_id: uuid.UUID) -> Count:
    statement = f"EXPLAIN (FORMAT JSON) SELECT 1 FROM {table} WHERE workspace_id = %(id)s"  # noqa: S608
    plan = _row(statement, {"id": workspace_id})[0]
    plan = json.loads(plan) if isinstance(plan, str) else plan
    return Count(int(plan[0]["Plan"]["Plan Rows"]), approximate=True)


# LIMIT inside the lateral keeps the planner from hashing all feedback: each newest decision is one index probe. A label
# that was taken back leaves two rows, its verdict and what withdraws that, and neither says anything any more.
_NEWEST = f"""
SELECT count(*), count(*) - count(answered), count(*) FILTER (WHERE id >= %(today_id)s),
       count(model_version_id) FILTER (WHERE id >= %(today_id)s),
       max(recorded_at), (array_agg(model_version_id IS NOT NULL ORDER BY id DESC))[1]
  FROM (SELECT id, model_version_id, recorded_at FROM decisions_decision
         WHERE workspace_id = %(workspace)s ORDER BY id DESC LIMIT {LOOK}) newest
  LEFT JOIN LATERAL (SELECT true AS answered FROM decisions_feedback f
                      WHERE f.decision_id = newest.id AND f.metric <> '{WITHDRAWN}'
                        AND NOT EXISTS (SELECT 1 FROM decisions_feedback w
                                         WHERE w.decision_id = newest.id AND w.supersedes = f.id
                                           AND w.metric = '{WITHDRAWN}') LIMIT 1) f ON true
"""  # noqa: S608 - a number and a name of ours

# Up to when the ledger was searched for what changes each agent's rewards, by its current spec.
_MARKS = """
WITH mark AS (
  SELECT DISTINCT ON (s.agent_id) s.id, s.agent_id, p.searched_until AS until
    FROM decisions_rewardspec s LEFT JOIN decisions_rewardprogress p ON p.spec_id = s.id
   WHERE s.workspace_id = %(workspace)s ORDER BY s.agent_id, s.number DESC
)
"""
_UNREAD = f"""
{_MARKS}, fresh AS (
  SELECT f.decision_id, f.recorded_at FROM decisions_feedback f
   WHERE f.workspace_id = %(workspace)s AND f.recorded_at > %(now)s::timestamptz - interval '30 days'
   ORDER BY f.recorded_at DESC LIMIT {LOOK}
)
SELECT count(*),
       count(*) FILTER (WHERE d.id IS NOT NULL AND (mark.until IS NULL OR fresh.recorded_at > mark.until)),
       count(*) FILTER (WHERE orphan), min(fresh.recorded_at) FILTER (WHERE orphan), max(fresh.recorded_at)
  FROM fresh
  LEFT JOIN LATERAL (SELECT d.id, d.agent_id FROM decisions_decision d WHERE d.id = fresh.decision_id LIMIT 1) d ON true
  LEFT JOIN mark ON mark.agent_id = d.agent_id
 CROSS JOIN LATERAL (SELECT fresh.decision_id IS NOT NULL AND d.id IS NULL AND fresh.recorded_at
                            < %(now)s::timestamptz - interval '{EARLY.total_seconds()} seconds' AS orphan) early
"""  # noqa: S608 - numbers and names of this module
# The newest rewards of each spec.
_REWARDED = f"""
{_MARKS}, frozen AS (
  SELECT mark.id AS spec_id, max(s.created_at) AS at
    FROM mark LEFT JOIN training_datasetsnapshot s ON s.agent_id = mark.agent_id AND s.reward_spec_id IS NOT NULL
   GROUP BY 1
), by_spec AS (
  SELECT count(*) AS looked_at, count(*) FILTER (WHERE r.computed_at >= %(today)s) AS today,
         count(*) FILTER (WHERE r.computed_at > coalesce(frozen.at, '-infinity')) AS unfrozen,
         max(r.computed_at) AS last
    FROM frozen
    CROSS JOIN LATERAL (SELECT r.computed_at FROM decisions_reward r
                         WHERE r.spec_id = frozen.spec_id AND r.value IS NOT NULL
                         ORDER BY r.computed_at DESC LIMIT {LOOK}) r
   GROUP BY frozen.spec_id
)
SELECT coalesce(sum(today), 0)::bigint, coalesce(bool_or(today = {LOOK}), false),
       coalesce(sum(unfrozen), 0)::bigint, coalesce(bool_or(unfrozen = {LOOK}), false), max(last)
  FROM by_spec
"""  # noqa: S608 - numbers of this module
