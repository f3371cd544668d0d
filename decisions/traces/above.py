"""Finds the agent of a span that names none: that of the nearest span above. Exporters send what ended first, so the
spans above may arrive later; a decision then moves to the root's agent, unless it has a reward.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence

from django.db import connection

from decisions.agents.current import CurrentAgent
from decisions.traces import names
from decisions.traces.mapping import slug_of
from decisions.traces.spans import Span
from workspaces.access.actors import Actor

Key = tuple[str, str]
"""A span's trace and its own id."""

LOOK = 16
"""Among how many of a trace's first steps its root is looked for."""


def own_agent(span: Span) -> str:
    """The slug of the agent that the span names, or empty."""
    named = names.find_value(span.attributes, "agent")
    return "" if named is None else slug_of(named)


def service_of(span: Span) -> str:
    """Whose a span is where nothing above it names an agent."""
    return slug_of(names.find_value(span.resource, "service") or "")


def find_above(spans: Iterable[Span]) -> dict[Key, str]:
    """By span the agent that the nearest of these spans names, itself or one above it, else its trace's root; empty
    where none does."""
    known = {(span.trace_id, span.span_id): span for span in spans}
    roots = {span.trace_id: own_agent(span) for span in known.values() if not span.parent_id}
    found: dict[Key, str] = {}
    for start in known:
        path: list[Key] = []
        key, agent = start, ""
        # Each is passed once: a chain of ten thousand, or a circle, costs no more than as many single spans.
        while key in known and not agent:
            if key in found:
                agent = found[key]
                break
            found[key] = ""
            path.append(key)
            agent = own_agent(known[key])
            key = key[0], known[key].parent_id
        found |= dict.fromkeys(path, agent)
    return {key: agent or roots.get(key[0], "") for key, agent in found.items()}


_ROOTS = """
SELECT e.trace, s.attributes ->> 'agent'
  FROM decisions_episode e CROSS JOIN LATERAL (
    SELECT parent, attributes FROM decisions_step WHERE episode_id = e.id ORDER BY id LIMIT %(look)s
  ) s
 WHERE e.workspace_id = %(workspace)s AND e.trace = ANY(%(traces)s) AND s.parent IS NULL AND s.attributes ? 'agent'
"""


def find_roots(by: Actor, traces: Collection[str]) -> dict[str, str]:
    """The slug of the agent that the recorded root of each trace names, where it does. One query."""
    if not traces:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_ROOTS, {"workspace": by.workspace.id, "traces": list(traces), "look": LOOK})
        return {trace: slug_of(agent) for trace, agent in cursor.fetchall()}


# Words and calls fit any agent that chats; an option must be offered by the agent. A rewarded decision stays with its
# agent, and so does one that the gateway made.
_MOVE = """
UPDATE decisions_decision d
   SET agent_id = t.agent, agent_version_id = v.id, options = v.options, recorded_at = %(now)s
  FROM unnest(%(episodes)s::uuid[], %(services)s::uuid[], %(agents)s::uuid[], %(versions)s::uuid[])
       AS t(episode, service, agent, version)
  JOIN decisions_step s ON s.episode_id = t.episode AND s.decision_id IS NOT NULL
   AND NOT coalesce(s.attributes, '{}'::jsonb) ? 'agent'
  JOIN decisions_agentversion v ON v.id = t.version
 WHERE d.id = s.decision_id AND d.workspace_id = %(workspace)s AND d.agent_id = t.service AND d.options IS NULL
   AND d.model_version_id IS NULL
   AND (v.action_space IN ('text', 'tool_calls') OR v.action_space = 'choice' AND v.options ? (d.action #>> '{}'))
   AND NOT EXISTS (SELECT 1 FROM decisions_reward r WHERE r.decision_id = d.id)
"""


def move_to_roots(
    by: Actor, moves: Sequence[tuple[uuid.UUID, str, str]], rooms: Mapping[str, CurrentAgent], now: dt.datetime
) -> None:
    """`moves`: an episode, the service that its spans without an agent went to, and the agent of its root. What moves
    counts as recorded now, so that the agent's next rewards see it."""
    known = [(episode, rooms[s], rooms[root]) for episode, s, root in moves if {s, root} <= rooms.keys()]
    if not known:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            _MOVE,
            {
                "workspace": by.workspace.id,
                "now": now,
                "episodes": [episode for episode, _, _ in known],
                "services": [service.agent.id for _, service, _ in known],
                "agents": [root.agent.id for _, _, root in known],
                "versions": [root.version.id for _, _, root in known],
            },
        )
