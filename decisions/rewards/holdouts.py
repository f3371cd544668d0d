"""Counts what came of a holdout: units with a reward, held and served, by week and of the whole time.

A unit's outcome is the mean reward of its decisions in the week, or in the whole time, by the newest reward spec of its
agent. `models_registry.experiments.holdouts` asks.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from typing import Any

from django.db import connection

from models_registry.experiments.holdouts import WEEK, threshold_of
from models_registry.experiments.ledger import Sums
from models_registry.models import Holdout
from models_registry.statistics.holdouts import ArmSums
from workspaces.storage.ids import uuid7_bound

# Who is held is calculated here as `routing.is_in_lane` does it. Ids of clients may lie an hour ahead or behind.
_SUMS = """
WITH valued AS MATERIALIZED (
  SELECT coalesce(d.unit, d.id::text) AS unit,
         floor(extract(epoch FROM d.recorded_at - %(start)s) / %(week)s)::int AS week, r.value
    FROM decisions_agent a
    JOIN decisions_decision d ON d.agent_id = a.id
    CROSS JOIN LATERAL (
      SELECT value FROM decisions_reward
       WHERE decision_id = d.id AND value IS NOT NULL
         AND spec_id = (SELECT id FROM decisions_rewardspec WHERE agent_id = a.id ORDER BY number DESC LIMIT 1)
       ORDER BY version DESC LIMIT 1) r
   WHERE a.registered_model_id = %(model)s AND d.id >= %(first)s AND d.id < %(last)s AND d.policy_name IS NULL
     AND d.recorded_at >= %(start)s AND d.recorded_at < %(end)s),
means AS (
  SELECT unit, week, avg(value) AS outcome FROM valued GROUP BY unit, week
   UNION ALL
  SELECT unit, NULL, avg(value) FROM valued GROUP BY unit)
SELECT week, substring(sha256(convert_to(%(salt)s || unit, 'UTF8')) FROM 1 FOR 8) < %(threshold)s AS held,
       count(*), sum(outcome), sum(outcome * outcome)
  FROM means GROUP BY 1, 2
"""


def count_units(holdout: Holdout, now: dt.datetime) -> list[Sums]:
    """Until now, or until its end."""
    end = min(now, holdout.ended_at or now)
    hour = dt.timedelta(hours=1)
    known: dict[str, Any] = {
        "model": holdout.registered_model_id,
        "start": holdout.started_at,
        "end": end,
        "first": uuid7_bound(holdout.started_at - hour),
        "last": uuid7_bound(end + hour),
        "week": WEEK.total_seconds(),
        "salt": f"{holdout.salt}|{holdout.id}|",
        "threshold": threshold_of(holdout.share),
    }
    with connection.cursor() as cursor:
        cursor.execute(_SUMS, known)
        arms: dict[int | None, dict[bool, ArmSums]] = defaultdict(dict)
        for week, held, units, total, squares in cursor.fetchall():
            arms[week][held] = ArmSums(units, float(total), float(squares))
    return [Sums(week, one.get(False, ArmSums()), one.get(True, ArmSums())) for week, one in arms.items()]
