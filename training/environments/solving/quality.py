"""How well an agent's episodes went over time: outcomes that code reported, and what people said of them.

The words are those of the engine's `EpisodeScore`. Episodes of `solve` count, and those that clients report with the
same feedback of the source `code`: `solved`, `score` or `finished` on the episode, and `step_reward` on its decisions.
Episodes on held-out tasks, by which runs were measured, served nobody and do not count.
The page and the API read it.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from decisions.models import Agent
from decisions.models.episode import IS_LIVE
from decisions.models.verdicts import VERDICT, WITHDRAWN
from decisions.queries.reward_sample import Range
from models_registry.statistics.intervals import share_interval
from training.environments.solving.recording import FINISHED, SCORE, SOLVED, STEP_REWARD
from workspaces.storage.ids import uuid7_bound

MOST = 20_000
"""Episodes that are looked at, the newest."""
# Of several reports of one metric the newest counts. Feedback on episodes lies in the default partition.
_EPISODES = f"""
WITH chosen AS (
  SELECT e.id, e.started_at, e.external_id FROM decisions_episode e
   WHERE e.agent_id = %(agent)s AND e.id >= %(first)s AND e.started_at >= %(since)s AND {IS_LIVE.format("e")}
   ORDER BY e.id DESC LIMIT %(most)s
), told AS (
  SELECT DISTINCT ON (f.episode_id, f.metric) f.episode_id, f.metric, f.value
    FROM decisions_feedback f JOIN chosen e ON f.episode_id = e.id
   WHERE f.decision_id IS NULL AND f.source = 'code' AND f.metric IN (%(solved)s, %(score)s, %(finished)s)
   ORDER BY f.episode_id, f.metric, f.recorded_at DESC, f.id DESC
), outcome AS (
  SELECT episode_id, jsonb_object_agg(metric, value) AS said FROM told GROUP BY 1
)
SELECT e.id, e.started_at, o.said->>%(solved)s, o.said->>%(score)s, o.said->>%(finished)s,
       d.steps, d.earned, d.version, d.domain, coalesce(d.task, e.id::text)
  FROM chosen e
  LEFT JOIN outcome o ON o.episode_id = e.id
 CROSS JOIN LATERAL (
   SELECT count(*) AS steps,
          count(*) FILTER (WHERE EXISTS (
            SELECT 1 FROM decisions_feedback f
             WHERE f.decision_id = one.id AND f.source = 'code' AND f.metric = %(step_reward)s
               AND jsonb_typeof(f.value) = 'number' AND f.value > '0'::jsonb)) AS earned,
          (array_agg(one.model_version_id ORDER BY one.step_number NULLS FIRST, one.id))[1] AS version,
          min(one.state->>'domain') AS domain,
          min(one.item_ref) AS task
     FROM decisions_decision one WHERE one.episode_id = e.id
 ) d
 WHERE e.external_id LIKE 'solve:%%' OR o.said ?| ARRAY[%(solved)s, %(score)s]
"""  # noqa: S608 - our own names
_LOOKED_AT = f"""
SELECT count(*) FROM (
  SELECT 1 FROM decisions_episode e
   WHERE agent_id = %(agent)s AND id >= %(first)s AND started_at >= %(since)s AND {IS_LIVE.format("e")} LIMIT %(most)s
) one
"""  # noqa: S608 - our own names
_NAMES = """
SELECT v.id, m.name || ':' || v.number FROM models_registry_modelversion v
  JOIN models_registry_registeredmodel m ON m.id = v.registered_model_id WHERE v.id = ANY(%s)
"""
# What was superseded, such as a label that was taken back, does not count.
_FEEDBACK = """
WITH said AS (
  SELECT f.episode_id AS episode, f.id, f.metric, f.value FROM decisions_feedback f
   WHERE f.decision_id IS NULL AND f.episode_id = ANY(%(ids)s) AND f.source = 'human'
     AND NOT EXISTS (SELECT 1 FROM decisions_feedback later WHERE later.decision_id IS NULL
                        AND later.episode_id = f.episode_id AND later.supersedes = f.id)
  UNION ALL
  SELECT d.episode_id, f.id, f.metric, f.value
    FROM decisions_decision d JOIN decisions_feedback f ON f.decision_id = d.id AND f.source = 'human'
   WHERE d.episode_id = ANY(%(ids)s)
     AND NOT EXISTS (SELECT 1 FROM decisions_feedback later
                      WHERE later.decision_id = f.decision_id AND later.supersedes = f.id)
)
SELECT episode, metric, value #>> '{}' FROM said WHERE metric <> %(withdrawn)s ORDER BY id
"""
_VERDICTS = {"confirmed": 1.0, "corrected": 0.0, "overridden": 0.0}


@dataclass(frozen=True, slots=True)
class HumanFeedback:
    """`mean` of numbers, of yes and no, and of verdicts, where confirmed is 1; None where all values are texts."""

    metric: str
    count: int
    mean: float | None


@dataclass(frozen=True, slots=True)
class Quality:
    """Means over `episodes`, which have an outcome; `left_out` have none. `solved` with its 95% interval, clustered by
    task, None where fewer than two tasks say nothing of the spread."""

    start: dt.datetime
    model_version: str | None
    episodes: int
    left_out: int
    solved: float | None
    solved_low: float | None
    solved_high: float | None
    score: float | None
    steps: float | None
    progress: float | None
    finished: float | None
    solved_by_domain: Mapping[str, float]
    feedback: Sequence[HumanFeedback]


@dataclass(frozen=True, slots=True)
class AgentQuality:
    """`rows` by stretch of time and model version, the oldest first; `stretches` of all versions together, one for each
    stretch of the range. `complete`: no episode of the range was left unread."""

    agent: Agent
    time: Range
    complete: bool
    total: Quality
    rows: Sequence[Quality]
    stretches: Sequence[Quality]


@dataclass(frozen=True, slots=True)
class _Episode:
    id: uuid.UUID
    stretch: int
    solved: float | None
    score: float | None
    finished: float | None
    steps: int
    earned: int
    version: str | None
    domain: str
    task: str

    @property
    def has_outcome(self) -> bool:
        return self.solved is not None or self.score is not None


def measure_quality(agent: Agent, time: Range, *, now: dt.datetime) -> AgentQuality:
    """Four statements, over the newest MOST episodes of the range at most."""
    starts = time.starts(now)
    episodes, complete = _read_episodes(agent, starts, time)
    said = _read_feedback([one.id for one in episodes])
    by_row: defaultdict[tuple[int, str], list[_Episode]] = defaultdict(list)
    by_stretch: defaultdict[int, list[_Episode]] = defaultdict(list)
    for one in episodes:
        by_row[one.stretch, one.version or ""].append(one)
        by_stretch[one.stretch].append(one)
    rows = [
        _measure(starts[stretch], version or None, found, said) for (stretch, version), found in sorted(by_row.items())
    ]
    return AgentQuality(
        agent=agent,
        time=time,
        complete=complete,
        total=_measure(starts[0], None, episodes, said),
        rows=rows,
        stretches=[_measure(start, None, by_stretch[place], said) for place, start in enumerate(starts)],
    )


def _read_episodes(agent: Agent, starts: Sequence[dt.datetime], time: Range) -> tuple[list[_Episode], bool]:
    """And whether no episode of the range was left unread."""
    asked: dict[str, Any] = {
        "agent": agent.id,
        "first": uuid7_bound(starts[0]),
        "since": starts[0],
        "most": MOST,
        "solved": SOLVED,
        "score": SCORE,
        "finished": FINISHED,
        "step_reward": STEP_REWARD,
    }
    with connection.cursor() as cursor:
        cursor.execute(_EPISODES, asked)
        found = cursor.fetchall()
        cursor.execute(_NAMES, [list({row[7] for row in found if row[7] is not None})])
        names = dict(cursor.fetchall())
        cursor.execute(_LOOKED_AT, asked)
        complete = cursor.fetchone()[0] < MOST
    episodes = [
        _Episode(
            id=row,
            stretch=min((started - starts[0]) // time.step, len(starts) - 1),
            solved=told if (told := _number(solved)) in (0.0, 1.0) else None,
            score=_number(score),
            finished=_number(finished),
            steps=steps,
            earned=earned,
            version=names.get(version),
            domain=domain or "",
            task=task,
        )
        for row, started, solved, score, finished, steps, earned, version, domain, task in found
    ]
    return episodes, complete


def _number(told: str | None) -> float | None:
    """Of a metric's value as text: yes is 1. What is no number says nothing."""
    if told in ("true", "false"):
        return float(told == "true")
    try:
        value = float(told) if told is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _read_feedback(episodes: Sequence[uuid.UUID]) -> dict[uuid.UUID, list[tuple[str, float | None]]]:
    """By episode, the metric and the value as a number, None of a text."""
    said: defaultdict[uuid.UUID, list[tuple[str, float | None]]] = defaultdict(list)
    if episodes:
        with connection.cursor() as cursor:
            cursor.execute(_FEEDBACK, {"ids": list(episodes), "withdrawn": WITHDRAWN})
            for episode, metric, value in cursor.fetchall():
                said[episode].append((metric, _VERDICTS.get(value) if metric == VERDICT else _number(value)))
    return said


def _measure(
    start: dt.datetime,
    version: str | None,
    episodes: Sequence[_Episode],
    said: Mapping[uuid.UUID, Sequence[tuple[str, float | None]]],
) -> Quality:
    known = [one for one in episodes if one.has_outcome]
    hits = [(one.solved, one.task, one.domain) for one in known if one.solved is not None]
    interval = share_interval([hit for hit, _, _ in hits], [task for _, task, _ in hits]) if hits else None
    low, high = (interval.low, interval.high) if interval is not None and interval.clusters > 1 else (None, None)
    steps = sum(one.steps for one in known)
    domains: defaultdict[str, list[float]] = defaultdict(list)
    for hit, _, domain in hits:
        domains[domain].append(hit)
    return Quality(
        start=start,
        model_version=version,
        episodes=len(known),
        left_out=len(episodes) - len(known),
        solved=interval.mean if interval is not None else None,
        solved_low=low,
        solved_high=high,
        score=_mean(one.score for one in known),
        steps=_mean(float(one.steps) for one in known),
        progress=sum(one.earned for one in known) / steps if steps else None,
        finished=_mean(one.finished for one in known),
        solved_by_domain={name: math.fsum(values) / len(values) for name, values in sorted(domains.items()) if name},
        feedback=_sum_feedback(pair for one in episodes for pair in said.get(one.id, ())),
    )


def _sum_feedback(pairs: Iterable[tuple[str, float | None]]) -> list[HumanFeedback]:
    by_metric: defaultdict[str, list[float | None]] = defaultdict(list)
    for metric, value in pairs:
        by_metric[metric].append(value)
    return [HumanFeedback(metric, len(values), _mean(values)) for metric, values in sorted(by_metric.items())]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
