"""Counts whether an agent's decisions are enough to train on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection

from decisions.models import Agent
from decisions.models.verdicts import STANDS, SUPERSEDING, VERDICT
from decisions.rewards.specs import find_specs
from workspaces.models import Workspace

BLOCK = 100
"""Decisions are counted towards training in blocks of this many."""
ENOUGH_DECISIONS, ENOUGH_REWARDED = 100, 50


@dataclass(frozen=True, slots=True)
class Stats:
    """Of one kind of agent, or of all. `average` is the mean raw reward, None where nothing is rewarded."""

    decisions: int
    rewarded: int
    with_verdict: int
    average: float | None

    @property
    def ready(self) -> bool:
        return self.decisions >= ENOUGH_DECISIONS and self.rewarded >= ENOUGH_REWARDED


# Each by one index from end to end, none by a sort of the ledger. A reward counts by its newest version. What the two
# NOT EXISTS also ask is implied, but not to the planner: few rows are left to set the others against.
_DECISIONS = "SELECT agent_id, count(*) FROM decisions_decision WHERE agent_id = ANY(%s) GROUP BY agent_id"
_REWARDED = """
SELECT s.agent_id, count(*), avg(r.raw)
  FROM decisions_reward r JOIN decisions_rewardspec s ON s.id = r.spec_id
 WHERE r.spec_id = ANY(%s) AND r.value IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM decisions_reward n
                    WHERE n.decision_id = r.decision_id AND n.spec_id = r.spec_id AND n.version > r.version
                      AND n.version > 1)
 GROUP BY s.agent_id
"""
_JUDGED = f"""
SELECT d.agent_id, count(*)
  FROM (SELECT DISTINCT decision_id FROM decisions_feedback f
         WHERE workspace_id = %s AND metric = '{VERDICT}' AND decision_id IS NOT NULL
           AND {STANDS.format("f", SUPERSEDING)}) v
  JOIN decisions_decision d ON d.id = v.decision_id
 WHERE d.agent_id = ANY(%s) GROUP BY d.agent_id
"""  # noqa: S608 - our own names


def count_training_stats(workspace: Workspace, kind: str | None = None) -> dict[str, Stats]:
    """By kind of agent, those without any agent left out."""
    specs = find_specs(workspace, kind)
    kinds = dict(Agent.objects.filter(id__in=[spec.agent_id for spec in specs]).values_list("id", "kind"))
    with connection.cursor() as cursor:
        cursor.execute(_DECISIONS, [list(kinds)])
        decisions = dict(cursor.fetchall())
        cursor.execute(_REWARDED, [[spec.id for spec in specs]])
        rewarded = {agent: (count, mean) for agent, count, mean in cursor.fetchall()}
        cursor.execute(_JUDGED, [workspace.id, list(kinds)])
        with_verdict = dict(cursor.fetchall())
    return {
        name: _sum(decisions, rewarded, with_verdict, [agent for agent, of in kinds.items() if of == name])
        for name in sorted(set(kinds.values()))
    }


def _sum(
    decisions: Mapping[Any, int],
    rewarded: Mapping[Any, tuple[int, float]],
    with_verdict: Mapping[Any, int],
    agents: list[Any],
) -> Stats:
    counted = [rewarded[agent] for agent in agents if agent in rewarded]
    total = sum(count for count, _ in counted)
    return Stats(
        decisions=sum(decisions.get(agent, 0) for agent in agents),
        rewarded=total,
        with_verdict=sum(with_verdict.get(agent, 0) for agent in agents),
        average=sum(count * mean for count, mean in counted) / total if total else None,
    )


def add_up(stats: Iterable[Stats]) -> Stats:
    """Of several kinds together."""
    many = list(stats)
    total = sum(one.rewarded for one in many)
    return Stats(
        decisions=sum(one.decisions for one in many),
        rewarded=total,
        with_verdict=sum(one.with_verdict for one in many),
        average=sum(one.rewarded * (one.average or 0.0) for one in many) / total if total else None,
    )


def as_plain(stats: Stats) -> dict[str, Any]:
    """As the notes app reads it: blocks of 100 decisions, and the share of the one that is being filled."""
    blocks, rest = divmod(stats.decisions, BLOCK)
    return {
        "totalDecisions": stats.decisions,
        "decisionsWithReward": stats.rewarded,
        "decisionsWithFeedback": stats.with_verdict,
        "avgReward": stats.average,
        "progressBlocks": blocks,
        "progressInCurrentBlock": rest,
        "progressPercentage": 100.0 * rest / BLOCK,
        "readyForTraining": stats.ready,
    }
