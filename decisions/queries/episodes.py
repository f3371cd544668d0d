"""An episode's steps in order of time, and their sums."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.db import connection

from decisions.ingest.schemas import LONGEST_MS
from decisions.models import Decision, Episode, Step


@dataclass(frozen=True, slots=True)
class Totals:
    """Of one episode, from its decisions and steps. Tokens and cost leave spans out: they repeat what lies in them.

    `ended_at` is the latest end that is known, `started_at` the earliest start.
    """

    steps: int = 0
    decisions: int = 0
    failures: int = 0
    tool_calls: int = 0
    llm_calls: int = 0
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: Decimal | None = None
    started_at: dt.datetime | None = None
    ended_at: dt.datetime | None = None


_TOTALS = """
WITH told AS (
  SELECT s.episode_id AS episode, s.kind, s.success, s.tokens_in, s.tokens_out, s.cost, s.started_at, s.duration_ms
    FROM decisions_step s WHERE s.episode_id = ANY(%(ids)s)
  UNION ALL
  SELECT d.episode_id, s.kind, s.success, s.tokens_in, s.tokens_out, s.cost, s.started_at, s.duration_ms
    FROM decisions_decision d JOIN decisions_step s ON s.decision_id = d.id
   WHERE d.episode_id = ANY(%(ids)s) AND s.episode_id IS NULL
  UNION ALL
  -- A decision whose model call stands beside it as a step is counted there. One that says why its answer ended, as
  -- the gateway's chats do, is its model call itself. Its time: see find_time.
  SELECT d.episode_id, CASE WHEN d.finish_reason IS NULL THEN 'decision' ELSE 'llm_call' END, NULL,
         d.tokens_in, d.tokens_out, d.cost,
         d.observed_at - make_interval(secs => (took.ms - CASE WHEN d.finish_reason IS NULL THEN 0 ELSE
           least(took.ms, greatest(extract(epoch FROM d.recorded_at - d.observed_at)::float8 * 1000, 0)) END) / 1000),
         took.ms
    FROM decisions_decision d CROSS JOIN LATERAL (SELECT least(coalesce(d.latency_ms, 0), 1e12) AS ms) took
   WHERE d.episode_id = ANY(%(ids)s)
     AND NOT EXISTS (SELECT 1 FROM decisions_step s WHERE s.decision_id = d.id AND s.kind = 'llm_call')
)
SELECT episode,
       count(*) FILTER (WHERE kind <> 'decision'),
       (SELECT count(*) FROM decisions_decision d WHERE d.episode_id = told.episode),
       count(*) FILTER (WHERE success = false),
       -- A tool that was called may also be recorded as a step: it is one call.
       greatest(count(*) FILTER (WHERE kind = 'tool_call'), (
         SELECT sum(CASE WHEN jsonb_typeof(d.action->0->'name') = 'string' THEN jsonb_array_length(d.action) END)
           FROM decisions_decision d WHERE d.episode_id = told.episode)),
       count(*) FILTER (WHERE kind = 'llm_call'),
       sum(tokens_in) FILTER (WHERE kind <> 'span'),
       sum(tokens_out) FILTER (WHERE kind <> 'span'),
       sum(cost) FILTER (WHERE kind <> 'span'),
       min(started_at),
       max(started_at + make_interval(secs => least(coalesce(duration_ms, 0), 1e12) / 1000))
  FROM told GROUP BY episode
"""


def find_totals(episodes: Iterable[uuid.UUID]) -> dict[uuid.UUID, Totals]:
    """One statement for any number of episodes, over indexes. An episode without rows has no entry."""
    with connection.cursor() as cursor:
        cursor.execute(_TOTALS, {"ids": list(episodes)})
        return {row[0]: Totals(*row[1:]) for row in cursor.fetchall()}


def fill_totals(episodes: Sequence[Episode]) -> dict[uuid.UUID, Totals]:
    """Puts what nobody reported into the objects, as it is counted: they are to be shown and not saved. Answers the
    totals, with an entry for each. One statement for any number."""
    counted = find_totals([episode.id for episode in episodes])
    for episode in episodes:
        totals = counted.setdefault(episode.id, Totals())
        for name in ("llm_calls", "tokens_in", "tokens_out", "cost", "ended_at"):
            if getattr(episode, name) is None:
                setattr(episode, name, getattr(totals, name))
        episode.duration_ms = _duration_of(episode, totals)
    return counted


def _duration_of(episode: Episode, totals: Totals) -> float | None:
    """Milliseconds: as reported, else from the first start to the last end that are known."""
    if episode.duration_ms is not None:
        return min(episode.duration_ms, LONGEST_MS)
    start = totals.started_at or episode.started_at
    return max((episode.ended_at - start).total_seconds() * 1000, 0.0) if episode.ended_at is not None else None


def find_time(decision: Decision) -> tuple[dt.datetime, float | None]:
    """Returns the beginning and milliseconds of a decision without a step. A decision is observed when it has been
    made, but a chat of the gateway when it is asked: its latency follows, up to its recording. As in `find_totals`."""
    if decision.latency_ms is None:
        return decision.observed_at, None
    latency = min(decision.latency_ms, LONGEST_MS)
    waited = (decision.recorded_at - decision.observed_at).total_seconds() * 1000
    after = min(latency, max(waited, 0.0)) if decision.finish_reason else 0.0
    return decision.observed_at - dt.timedelta(milliseconds=latency - after), latency


def find_steps(episode: Episode, *, most: int) -> list[Step]:
    """The episode's steps in the order of time, also those that only name one of its decisions."""
    own = Step.objects.filter(episode=episode)
    by_decision = Step.objects.filter(episode__isnull=True, decision__in=Decision.objects.filter(episode=episode))
    # Two looks at an index each: an OR over both would read every step of the workspace.
    found = [
        step
        for steps in (own, by_decision)
        for step in steps.filter(workspace=episode.workspace).defer("content_hash").order_by("id")[:most]
    ]
    return sorted(found, key=lambda step: step.place)[:most]
