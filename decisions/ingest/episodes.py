"""Episodes: found by name or trace, and summed up."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.db import connection

from decisions.erasure.names import EPISODE, episode_name, find_erased
from decisions.models import Decision, Episode, Step
from workspaces.actors import Actor

TRACE = re.compile(r"^trace:([0-9a-f]{32})$")
"""A name that means the episode of an OpenTelemetry trace, whichever agent it was first seen with."""
Named = tuple[uuid.UUID, str]
"""An episode as a client names it: the agent's id and the episode's name."""


def ensure_episodes(*, by: Actor, named: Mapping[Named, dt.datetime]) -> dict[Named, uuid.UUID]:
    """Ids of the episodes of these names; what is missing is made, started at the given moment.

    A name that was erased leads to the episode that had it, which stays erased: it is not stored again. One query for
    names that are there, of traces and others each; three more where some are new. Call inside a transaction. In one
    order everywhere, so that two batches with the same names do not wait for each other.
    """
    found = _find_episodes(by, named)
    if missing := sorted(set(named) - set(found), key=str):
        found |= _find_erased_names(by, [key for key in missing if not TRACE.match(key[1])])
        missing = [key for key in missing if key not in found]
        traces: dict[str, Named] = {}
        made = []
        for key in missing:
            if match := TRACE.match(key[1]):
                traces.setdefault(match[1], key)
            else:
                made.append(Episode(workspace=by.workspace, agent_id=key[0], external_id=key[1], started_at=named[key]))
        made += [
            Episode(workspace=by.workspace, agent_id=key[0], trace=trace, started_at=named[key])
            for trace, key in sorted(traces.items())
        ]
        Episode.objects.bulk_create(made, ignore_conflicts=True)
        found |= _find_episodes(by, missing)
    return {key: found[key] for key in named}


def _find_episodes(by: Actor, named: Collection[Named]) -> dict[Named, uuid.UUID]:
    traces = {key: match[1] for key in named if (match := TRACE.match(key[1]))}
    plain = set(named) - set(traces)
    found: dict[Named, uuid.UUID] = {}
    if plain:
        rows = Episode.objects.filter(agent_id__in={key[0] for key in plain}, external_id__in={key[1] for key in plain})
        found = {
            (agent, name): row
            for agent, name, row in rows.values_list("agent_id", "external_id", "id")
            if (agent, name) in plain
        }
    if traces:
        by_trace = Episode.objects.for_workspace(by.workspace).filter(trace__in=set(traces.values()))
        ids = dict(by_trace.values_list("trace", "id"))
        found |= {key: ids[trace] for key, trace in traces.items() if trace in ids}
    return found


def find_erased_episodes(*, by: Actor, named: Collection[Named]) -> set[Named]:
    """Those of the names whose episodes were erased. Two queries for any number."""
    traces = {key: match[1] for key in named if (match := TRACE.match(key[1]))}
    found = set(_find_erased_names(by, set(named) - set(traces)))
    if traces:
        rows = Episode.objects.for_workspace(by.workspace).filter(trace__in=traces.values())
        gone = {row.trace for row in rows.only("trace", "external_id") if row.is_erased}
        found |= {key for key, trace in traces.items() if trace in gone}
    return found


def _find_erased_names(by: Actor, named: Iterable[Named]) -> dict[Named, uuid.UUID]:
    names = {episode_name(*key): key for key in named}
    found = find_erased(by.workspace, EPISODE, names)
    return {names[name]: row for name, row in found.items() if row is not None}


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
  -- A decision whose model call stands beside it as a step is counted there.
  SELECT d.episode_id, 'decision', NULL, d.tokens_in, d.tokens_out, d.cost, d.observed_at, NULL
    FROM decisions_decision d
   WHERE d.episode_id = ANY(%(ids)s)
     AND NOT EXISTS (SELECT 1 FROM decisions_step s WHERE s.decision_id = d.id AND s.kind = 'llm_call')
)
SELECT episode,
       count(*) FILTER (WHERE kind <> 'decision'),
       (SELECT count(*) FROM decisions_decision d WHERE d.episode_id = told.episode),
       count(*) FILTER (WHERE success = false),
       count(*) FILTER (WHERE kind = 'tool_call'),
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
    return sorted(found, key=in_order)[:most]


def in_order(step: Step) -> tuple[dt.datetime, float, int, uuid.UUID]:
    """By start; of those that began together, what took longer holds the others."""
    number = -1 if step.number is None else step.number
    return step.started_at, -(step.duration_ms or 0.0), number, step.id
