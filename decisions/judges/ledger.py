"""Reads from the ledger what a judge and people said of an agent's decisions, in one statement.

Of each decision the judge's newest score counts, and the feedback of people that counts everywhere
(`decisions.models.verdicts`). True and false are 1 and 0; of verdicts confirmed is 1, corrected and overridden are 0,
and ignored says nothing.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db import connection

from decisions.judges.scored import Labelled, Unlabelled, Vector
from decisions.models import Agent, JudgeSource
from decisions.models.feedback import MEASURED
from decisions.models.tombstones import NOT_ERASED
from decisions.models.verdicts import ALL_FEEDBACK, FIRST_COUNTS, GIVEN_AT, STANDS, VERDICT

MOST_SCORES = 200_000
"""The newest so many scores are read: some seconds and 100 MB."""
LOOKED_AT = 2_000
"""Judges are looked for among the feedback on so many of the agent's newest decisions."""

# Larger numbers than a float holds are no scores.
_NUMBER = """CASE jsonb_typeof({0})
    WHEN 'boolean' THEN ({0})::boolean::int::float8
    WHEN 'number' THEN CASE WHEN abs(({0})::numeric) < 1e15 THEN ({0})::numeric::float8 END
    ELSE CASE {0} #>> '{{}}' WHEN 'confirmed' THEN 1.0 WHEN 'corrected' THEN 0.0 WHEN 'overridden' THEN 0.0 END
  END"""
_PEOPLE = f"""(SELECT {_NUMBER.format("f.value")} FROM decisions_feedback f
    WHERE f.decision_id = d.id AND f.workspace_id = d.workspace_id AND f.source = 'human' AND f.metric = %(people)s
      AND {STANDS.format("f", ALL_FEEDBACK)}
    ORDER BY {FIRST_COUNTS.format("f")} LIMIT 1)"""  # noqa: S608 - our own names
_SCORED = f"""
WITH judged AS (
  SELECT DISTINCT ON (f.decision_id) f.decision_id, f.recorded_at, {_NUMBER.format("f.value")} AS score
    FROM decisions_feedback f JOIN decisions_decision d ON d.id = f.decision_id AND d.workspace_id = f.workspace_id
   WHERE f.workspace_id = %(workspace)s AND f.metric = %(metric)s AND f.source = %(source)s
     AND f.recorded_at > %(since)s AND f.recorded_at <= %(until)s
     AND d.agent_id = %(agent)s AND d.{NOT_ERASED} AND {STANDS.format("f", ALL_FEEDBACK)}
   ORDER BY f.decision_id, {GIVEN_AT.format("f")} DESC, f.id DESC
), newest AS (SELECT * FROM judged ORDER BY recorded_at DESC LIMIT %(most)s)
SELECT extract(epoch FROM j.recorded_at)::float8, j.score, {_PEOPLE}, coalesce(d.unit, d.id::text),
       CASE WHEN d.options IS NULL THEN length(coalesce(d.completion, d.action #>> '{{}}')) END,
       (SELECT o.place - 1 FROM jsonb_array_elements(d.options) WITH ORDINALITY o(name, place)
         WHERE o.name = d.action LIMIT 1),
       coalesce(m.name || ':' || v.number, d.policy_name, ''),
       CASE WHEN d.options IS NOT NULL AND jsonb_typeof(d.action) = 'string' THEN d.action #>> '{{}}' ELSE '' END
  FROM newest j JOIN decisions_decision d ON d.id = j.decision_id
  LEFT JOIN models_registry_modelversion v ON v.id = d.model_version_id
  LEFT JOIN models_registry_registeredmodel m ON m.id = v.registered_model_id
"""  # noqa: S608
_PEOPLE_SAY = f"""
SELECT EXISTS (SELECT 1 FROM (SELECT id, workspace_id FROM decisions_decision
                               WHERE agent_id = %(agent)s AND {NOT_ERASED} ORDER BY id DESC LIMIT %(most)s) d
                JOIN decisions_feedback f ON f.decision_id = d.id AND f.workspace_id = d.workspace_id
               WHERE f.source = 'human' AND f.metric = %(metric)s)
"""  # noqa: S608
_JUDGES = f"""
SELECT DISTINCT f.metric, f.source
  FROM (SELECT id, workspace_id FROM decisions_decision
         WHERE agent_id = %(agent)s AND {NOT_ERASED} ORDER BY id DESC LIMIT %(most)s) d
  JOIN decisions_feedback f ON f.decision_id = d.id AND f.workspace_id = d.workspace_id
 WHERE f.source = 'llm' AND NOT starts_with(f.metric, %(measured)s)
   AND (f.metric = '{VERDICT}' OR jsonb_typeof(f.value) IN ('boolean', 'number'))
 ORDER BY f.metric, f.source
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class JudgeName:
    """Feedback keeps no author: whatever writes one metric from one source on an agent's decisions is one judge."""

    metric: str
    source: str = JudgeSource.LLM


@dataclass(frozen=True, slots=True)
class Scored:
    """What was read. `labelled_at`, `alone_at`: when each score arrived, seconds since 1970. `unreadable`: scores that
    are no numbers."""

    labelled: Labelled
    labelled_at: Vector
    alone: Unlabelled
    alone_at: Vector
    unreadable: int = 0

    @property
    def scores(self) -> int:
        return self.labelled_at.size + self.alone_at.size

    def after(self, moment: dt.datetime) -> Scored:
        """The scores that arrived later."""
        return self._only(self.labelled_at > moment.timestamp(), self.alone_at > moment.timestamp())

    def until(self, moment: dt.datetime) -> Scored:
        """The scores that had arrived by then."""
        return self._only(self.labelled_at <= moment.timestamp(), self.alone_at <= moment.timestamp())

    def _only(self, mine: Any, rest: Any) -> Scored:
        alone = Unlabelled(self.alone.judge[rest], self.alone.clusters[rest])
        return Scored(self.labelled.only(mine), self.labelled_at[mine], alone, self.alone_at[rest], self.unreadable)


def read_scored(
    agent: Agent, judge: JudgeName, *, people_metric: str, since: dt.datetime, until: dt.datetime
) -> Scored:
    """The newest MOST_SCORES that arrived after `since`, up to `until`. One statement."""
    with connection.cursor() as cursor:
        cursor.execute(
            _SCORED,
            {
                "workspace": agent.workspace_id,
                "agent": agent.id,
                "metric": judge.metric,
                "source": judge.source,
                "people": people_metric,
                "since": since,
                "until": until,
                "most": MOST_SCORES,
            },
        )
        rows = cursor.fetchall()
    read = [row for row in rows if row[1] is not None]
    both, alone = [row for row in read if row[2] is not None], [row for row in read if row[2] is None]
    labelled = Labelled(
        people=_numbers(both, 2),
        judge=_numbers(both, 1),
        clusters=_names(both, 3),
        lengths=_numbers(both, 4),
        places=_numbers(both, 5),
        slices={"version": _names(both, 6), "action": _names(both, 7)},
    )
    unlabelled = Unlabelled(_numbers(alone, 1), _names(alone, 3))
    return Scored(labelled, _numbers(both, 0), unlabelled, _numbers(alone, 0), len(rows) - len(read))


def find_people_metric(agent: Agent, judge: JudgeName) -> str:
    """The judge's own metric where people have used it lately, else their verdicts. One statement."""
    with connection.cursor() as cursor:
        cursor.execute(_PEOPLE_SAY, {"agent": agent.id, "metric": judge.metric, "most": LOOKED_AT})
        row = cursor.fetchone()
    return judge.metric if row and row[0] else VERDICT


def find_judges(agent: Agent) -> list[JudgeName]:
    """The judge models of the newest decisions, by metric. Code also counts things that nobody judges, and is a judge
    only once somebody calibrates it. One statement."""
    with connection.cursor() as cursor:
        cursor.execute(_JUDGES, {"agent": agent.id, "most": LOOKED_AT, "measured": MEASURED})
        return [JudgeName(metric, source) for metric, source in cursor.fetchall()]


def _numbers(rows: list[Any], column: int) -> Vector:
    return np.array([np.nan if row[column] is None else row[column] for row in rows], dtype=np.float64)


def _names(rows: list[Any], column: int) -> Any:
    return np.array([row[column] for row in rows], dtype=np.str_)
