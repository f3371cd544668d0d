"""Reads agents with the version that acts and its action space, by one query."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Q, QuerySet

from decisions.agents.actions import Space, make_space
from decisions.errors import UnknownAgent
from decisions.models import Agent, AgentVersion
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Workspace
from workspaces.storage.prepared import prepared_cursor
from workspaces.storage.row_cache import STAMP, RowCache


@dataclass(frozen=True, slots=True)
class CurrentAgent:
    """An agent with the version that acts, to which decisions recorded now belong, and that version's action space."""

    agent: Agent
    version: AgentVersion
    space: Space


_SPACES: dict[uuid.UUID, Space] = {}
MAX_SPACES = 1024


def space_of(version: AgentVersion) -> Space:
    """The version's action space, compiled once in a process: versions never change."""
    space = _SPACES.get(version.id)
    if space is None:
        if len(_SPACES) >= MAX_SPACES:
            _SPACES.clear()
        space = make_space(version.action_space, version.action_schema, version.state_schema)
        _SPACES[version.id] = space
    return space


_CURRENT: RowCache[CurrentAgent] = RowCache()
ACTING = """
 CROSS JOIN LATERAL (SELECT id FROM decisions_agentversion
                      WHERE agent_id = a.id AND (a.current_version_id IS NULL OR id = a.current_version_id)
                      ORDER BY number DESC LIMIT 1) v
"""
"""SQL: joins `v`, the version that acts, to the agent `a`."""
_CURRENT_VERSIONS = f"""
SELECT a.slug, a.id, v.id, {STAMP.format("a")}
  FROM decisions_agent a {ACTING}
 WHERE a.workspace_id = %s AND a.slug = ANY(%s)
"""  # noqa: S608 - names of our own


def find_agents(by: Actor, slugs: Iterable[str]) -> dict[str, CurrentAgent]:
    """By slug, in the order of the slugs; unknown ones are left out. One query for any number of them, and two more for
    those that are new to this process or have changed."""
    asked = list(dict.fromkeys(slugs))
    with prepared_cursor() as cursor:
        cursor.execute(_CURRENT_VERSIONS, [by.workspace.id, asked])
        rows = [(slug, agent, version, f"{stamp} {version}") for slug, agent, version, stamp in cursor.fetchall()]
    found = {slug: _CURRENT.find(agent, stamp) for slug, agent, _, stamp in rows}
    if unmet := [row for row in rows if found[row[0]] is None]:
        agents = Agent.objects.in_bulk([agent for _, agent, _, _ in unmet])
        versions = AgentVersion.objects.in_bulk([version for _, _, version, _ in unmet])
        for slug, agent, version, stamp in unmet:
            current = CurrentAgent(agents[agent], versions[version], space_of(versions[version]))
            _CURRENT.keep(agent, stamp, current)
            found[slug] = current
    return {slug: one for slug in asked if (one := found.get(slug)) is not None}


def current_versions(agents: Iterable[Agent]) -> QuerySet[AgentVersion]:
    """The version that acts for each of the agents that have one."""
    found = AgentVersion.objects.filter(agent__in=agents if isinstance(agents, QuerySet) else list(agents))
    acting = found.filter(Q(agent__current_version=None) | Q(agent__current_version=F("id")))
    return acting.order_by("agent_id", "-number").distinct("agent_id")


def find_current_version(agent: Agent) -> AgentVersion | None:
    """The version that acts for the agent; None where it has none."""
    return agent.versions.get(id=agent.current_version_id) if agent.current_version_id else agent.versions.first()


def unknown_agent(slug: str) -> FieldFault:
    return FieldFault("agent", f"{slug!r} does not exist in this workspace", "an agent's slug")


def refuse_unknown_agent(workspace: Workspace, query: Mapping[str, Any]) -> None:
    """Checks the agent that a list is filtered by. Raises InvalidInput."""
    if "agent" in query:
        find_agent_id(workspace, query["agent"])


def find_agent_id(workspace: Workspace, slug: str) -> uuid.UUID:
    """Returns the id of the agent that a list is filtered by: a join by its slug would search all rows for an agent
    with few. Raises InvalidInput."""
    agent = Agent.objects.for_workspace(workspace).filter(slug=slug).values_list("id", flat=True).first()
    if agent is None:
        raise InvalidInput("The query is invalid.", faults=[unknown_agent(slug)])
    return agent


def get_current_agent(by: Actor, slug: str) -> CurrentAgent:
    """Raises UnknownAgent."""
    current = find_agents(by, [slug]).get(slug)
    if current is None:
        raise UnknownAgent(f"There is no agent {slug!r} with a version in this workspace.")
    return current
