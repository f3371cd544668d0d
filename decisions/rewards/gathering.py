"""Gathers the facts of decisions, and what is stored of their rewards, by two statements for any number of decisions.

Which feedback counts is said by `decisions.models.verdicts`; the newest that stands of each metric is a measure.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db import connection
from psycopg import sql

from decisions.models import RewardSpec
from decisions.models.episode import IS_LIVE, SAME_QUERY
from decisions.models.tombstones import NOT_ERASED, PSEUDONYM_PREFIX
from decisions.models.verdicts import FIRST_COUNTS, STANDS, VERDICT
from decisions.rewards.components import Facts, Group, Trace
from decisions.rewards.components.facts import NOTHING

_decode = msgspec.json.Decoder().decode
MOST_OTHERS = 64
"""Other episodes of one query that one is compared with, the newest."""
# Columns of the decision `d` by the group of facts that reads them, as Facts names them.
_COLUMNS: Mapping[Group, Mapping[str, str]] = {
    "content": {
        "action": "d.action::text",
        "state": "d.state::text",
        "options": "d.options::text",
        "completion": "d.completion",
        "alternatives": "d.alternatives::text",
        "reasoning": "d.reasoning",
    },
    "correction": {
        "correction": """coalesce((SELECT l.corrected_action::text FROM decisions_label l
                                   WHERE l.decision_id = d.id AND 'label:' || l.id = m.verdict_key),
                                 m.correction)"""
    },
    "usage": {
        "latency_ms": "d.latency_ms",
        "tokens_in": "d.tokens_in",
        "tokens_out": "d.tokens_out",
        "cost": "d.cost::float8",
    },
    # Without an episode, what the decision itself says is its trace.
    "trace": {"action": "d.action::text", "completion": "d.completion"},
}
_JSON = frozenset({"action", "state", "options", "alternatives", "correction"})
_FACTS = f"""
WITH due AS MATERIALIZED (
  SELECT g.id, g.as_of FROM unnest(%(decisions)s::uuid[], %(moments)s::timestamptz[]) AS g(id, as_of)
), said AS MATERIALIZED (
  SELECT f.* FROM due JOIN decisions_feedback f ON f.decision_id = due.id AND f.recorded_at <= due.as_of
   WHERE f.workspace_id = %(workspace)s
     AND f.decision_id BETWEEN %(first)s AND %(last)s  -- leaves the other months' partitions out
     AND (%(judges)s::text[] IS NULL OR f.source <> 'llm' OR f.metric = ANY(%(judges)s))
), standing AS (
  SELECT DISTINCT ON (f.decision_id, f.metric) f.decision_id, f.metric, f.value, f.idempotency_key,
         f.correction
    FROM said f WHERE {STANDS.format("f", "said")}
   ORDER BY f.decision_id, f.metric, {FIRST_COUNTS.format("f")}
), m AS (
  SELECT decision_id, json_object_agg(metric, value)::text AS measures,
         max(idempotency_key) FILTER (WHERE metric = '{VERDICT}') AS verdict_key,
         max(correction::text) AS correction
    FROM standing GROUP BY decision_id
), heard AS (
  SELECT decision_id, max(recorded_at) AS until FROM said GROUP BY decision_id
)
SELECT d.id, m.measures, heard.until, d.confidence,
       extract(epoch FROM least(due.as_of, %(now)s) - d.recorded_at)::float8, d.episode_id,
       d.agent_id {{columns}}
  FROM due
  JOIN decisions_decision d ON d.id = due.id
  LEFT JOIN m ON m.decision_id = d.id
  LEFT JOIN heard ON heard.decision_id = d.id
 WHERE d.workspace_id = %(workspace)s AND (%(agent)s::uuid IS NULL OR d.agent_id = %(agent)s)
   AND d.id BETWEEN %(first)s AND %(last)s
 ORDER BY d.id
"""  # noqa: S608 - our own names
_STORED = """
SELECT DISTINCT ON (decision_id) decision_id, version, components::text, raw FROM decisions_reward
 WHERE spec_id = %(spec)s AND decision_id = ANY(%(decisions)s) AND decision_id BETWEEN %(first)s AND %(last)s
 ORDER BY decision_id, version DESC
"""
_STEPS = """count(*) FILTER (WHERE kind <> 'span')::int,
       sum(coalesce(tokens_in, 0) + coalesce(tokens_out, 0))
         FILTER (WHERE kind <> 'span' AND (tokens_in IS NOT NULL OR tokens_out IS NOT NULL))::int,
       count(*) FILTER (WHERE kind = 'llm_call')::int, count(*) FILTER (WHERE kind = 'tool_call')::int,
       count(success) FILTER (WHERE kind = 'tool_call')::int,
       count(*) FILTER (WHERE kind = 'tool_call' AND success)::int"""
_TRACES = f"""
SELECT e.id, e.query, e.final_response, e.tasks_created, e.tasks_completed, e.tasks_failed,
       CASE WHEN e.tokens_in IS NOT NULL OR e.tokens_out IS NOT NULL
            THEN coalesce(e.tokens_in, 0) + coalesce(e.tokens_out, 0) END, e.llm_calls, s.*
  FROM decisions_episode e
 CROSS JOIN LATERAL (
   SELECT {_STEPS} FROM (
     SELECT kind, success, tokens_in, tokens_out FROM decisions_step WHERE episode_id = e.id
     UNION ALL
     SELECT s.kind, s.success, s.tokens_in, s.tokens_out
       FROM decisions_decision d JOIN decisions_step s ON s.decision_id = d.id
      WHERE d.episode_id = e.id AND s.episode_id IS NULL) step
 ) s
 WHERE e.id = ANY(%(episodes)s) AND e.external_id <> %(erased)s || e.id
"""  # noqa: S608
# The feedback on an episode that counts, by metric. One on an episode is superseded within it.
_HEARD = f"""
WITH said AS MATERIALIZED (
  SELECT f.* FROM decisions_feedback f WHERE f.workspace_id = %(workspace)s AND f.episode_id = ANY(%(episodes)s)
     AND (f.source <> 'llm' OR %(judged)s)
), standing AS (
  SELECT DISTINCT ON (f.episode_id, f.metric) f.episode_id, f.metric, f.value FROM said f
   WHERE NOT EXISTS (SELECT 1 FROM said later WHERE later.supersedes = f.id)
   ORDER BY f.episode_id, f.metric, {FIRST_COUNTS.format("f")}
)
SELECT episode_id, json_object_agg(metric, value)::text FROM standing GROUP BY episode_id
"""  # noqa: S608
# Other agents' decisions have a place among those of the episode too.
_PLACES = """
SELECT id, place, count FROM (
  SELECT id, row_number() OVER (PARTITION BY episode_id ORDER BY step_number NULLS LAST, observed_at, id) - 1 AS place,
         count(*) OVER (PARTITION BY episode_id) AS count
    FROM decisions_decision WHERE episode_id = ANY(%(episodes)s)) d
 WHERE id = ANY(%(decisions)s)
"""
_OTHERS = f"""
SELECT e.id, other.id
  FROM decisions_episode e
 CROSS JOIN LATERAL (
   SELECT o.id FROM decisions_episode o
    WHERE o.agent_id = e.agent_id AND o.query <> '' AND {SAME_QUERY.format("o")} = {SAME_QUERY.format("e")}
      AND o.id <> e.id AND {IS_LIVE.format("o")} ORDER BY o.id DESC LIMIT {MOST_OTHERS}) other
 WHERE e.id = ANY(%(episodes)s) AND e.query <> ''
"""  # noqa: S608
_OWN_STEPS = f"""
SELECT decision_id, {_STEPS} FROM decisions_step
 WHERE decision_id = ANY(%(decisions)s) AND {NOT_ERASED} GROUP BY decision_id
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Gathered:
    """`until`: when the newest feedback that was read was recorded; None without any."""

    decision: uuid.UUID
    facts: Facts
    until: dt.datetime | None
    agent: uuid.UUID
    episode: uuid.UUID | None

    @property
    def trace_id(self) -> uuid.UUID:
        """What `facts.trace` is of: the episode, or a decision without one."""
        return self.episode or self.decision


@dataclass(frozen=True, slots=True)
class Stored:
    """The newest reward of a decision by a spec."""

    version: int
    components: Mapping[str, Any]
    raw: float | None


def gather_facts(
    *,
    workspace_id: uuid.UUID,
    agent_id: uuid.UUID | None,
    groups: frozenset[Group],
    moments: Mapping[uuid.UUID, dt.datetime | None],
    now: dt.datetime,
    credited: bool = False,
    compared: bool = False,
    judges: Collection[str] | None = None,
) -> Iterator[Gathered]:
    """Of those decisions that are the workspace's, or the agent's where one is given, in the order of their ids; what
    is not there yet is left out.

    moments: up to when feedback was recorded that counts, None for all of it. Traces are read as they are now.
    `credited`: with each decision's place in its episode; `compared`: with the traces of other episodes of its query.
    `judges`: metrics by which feedback on decisions from judge models counts, and none on episodes; None for all.
    """
    if not moments:
        return
    named = {name: column for group in sorted(groups) for name, column in _COLUMNS[group].items()}
    columns = sql.SQL("".join(f", {column}" for column in named.values()))
    with connection.cursor() as cursor:
        cursor.execute(
            sql.SQL(_FACTS).format(columns=columns),
            {
                "decisions": list(moments),
                "moments": ["infinity" if moment is None else moment.isoformat() for moment in moments.values()],
                "now": now,
                "workspace": workspace_id,
                "agent": agent_id,
                "first": min(moments),
                "last": max(moments),
                "judges": None if judges is None else sorted(judges),
            },
        )
        rows = cursor.fetchall()
    told = [
        {
            name: _decode(value) if name in _JSON and value is not None else value
            for name, value in zip(named, row[7:], strict=True)
        }
        for row in rows
    ]
    episodes = {row[5] for row in rows if row[5] is not None}
    places = _find_places(episodes, list(moments)) if credited else {}
    others = _find_others(episodes) if compared else {}
    traces = {}
    if "trace" in groups:
        traces = _find_traces(workspace_id, episodes.union(*others.values()), judged=judges is None)
        traces |= _find_own_traces({row[0]: more for row, more in zip(rows, told, strict=True) if row[5] is None})
    for (decision, measures, until, confidence, age, episode, agent, *_), more in zip(rows, told, strict=True):
        facts = Facts(
            measures={} if measures is None else _decode(measures),
            confidence=confidence,
            age=age,
            trace=traces.get(episode or decision),
            place=places.get(decision, (0, 1))[0],
            count=places.get(decision, (0, 1))[1],
            others=[traces[other] for other in others.get(episode, ()) if other in traces],
            **more,
        )
        yield Gathered(decision, facts, until, agent, episode)


def _find_traces(workspace_id: uuid.UUID, episodes: Collection[uuid.UUID], *, judged: bool) -> dict[uuid.UUID, Trace]:
    """By episode, `judged`: with what judge models said of it. An erased episode has no trace."""
    if not episodes:
        return {}
    known: dict[str, Any] = {"episodes": list(episodes), "workspace": workspace_id, "erased": PSEUDONYM_PREFIX}
    known["judged"] = judged
    with connection.cursor() as cursor:
        cursor.execute(_HEARD, known)
        heard = {episode: _decode(measures) for episode, measures in cursor.fetchall()}
        cursor.execute(_TRACES, known)
        rows = cursor.fetchall()
    traces = {}
    for episode, query, response, created, completed, failed, tokens, calls, *counts in rows:
        traces[episode] = Trace(
            query=query,
            response=response,
            tasks_created=created,
            tasks_completed=completed,
            tasks_failed=failed,
            measures=heard.get(episode, NOTHING),
            **_counted(counts, tokens=tokens, calls=calls),
        )
    return traces


def _find_own_traces(alone: Mapping[uuid.UUID, Mapping[str, Any]]) -> dict[uuid.UUID, Trace]:
    """By decision, of those without an episode; `alone` has what was gathered of each."""
    if not alone:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_OWN_STEPS, {"decisions": list(alone)})
        found = {row[0]: row[1:] for row in cursor.fetchall()}
    traces = {}
    for decision, more in alone.items():
        action = more["action"]
        response = more["completion"] or (action if isinstance(action, str) else "")
        traces[decision] = Trace(response=response, **_counted(found.get(decision, (0, None, 0, 0, 0, 0))))
    return traces


def _counted(counts: Sequence[Any], *, tokens: int | None = None, calls: int | None = None) -> dict[str, Any]:
    """The columns of `_STEPS` as a Trace names them; what was reported of the whole replaces what was summed."""
    steps, step_tokens, step_calls, tool_calls, tool_ends, tool_successes = counts
    return {
        "tokens": step_tokens if tokens is None else tokens,
        "llm_calls": step_calls if calls is None else calls,
        "tool_calls": tool_calls,
        "tool_ends": tool_ends,
        "tool_successes": tool_successes,
        "steps": steps,
    }


def _find_places(episodes: Collection[uuid.UUID], decisions: Sequence[uuid.UUID]) -> dict[uuid.UUID, tuple[int, int]]:
    """By decision its place in its episode, 0 the first, and how many decisions that has."""
    if not episodes:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_PLACES, {"episodes": list(episodes), "decisions": list(decisions)})
        return {decision: (place, count) for decision, place, count in cursor.fetchall()}


def _find_others(episodes: Collection[uuid.UUID]) -> dict[uuid.UUID, list[uuid.UUID]]:
    """By episode the newest others of its agent and query."""
    found: dict[uuid.UUID, list[uuid.UUID]] = {}
    if episodes:
        with connection.cursor() as cursor:
            cursor.execute(_OTHERS, {"episodes": list(episodes)})
            for episode, other in cursor.fetchall():
                found.setdefault(episode, []).append(other)
    return found


def find_stored(spec: RewardSpec, decisions: Sequence[uuid.UUID]) -> dict[uuid.UUID, Stored]:
    if not decisions:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            _STORED,
            {"spec": spec.id, "decisions": list(decisions), "first": min(decisions), "last": max(decisions)},
        )
        return {row[0]: Stored(row[1], _decode(row[2]), row[3]) for row in cursor.fetchall()}
