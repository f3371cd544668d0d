"""Agents as decisions meet them: with the newest version and its action space, found by one query."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from decisions.agents.actions import Space, make_space
from decisions.errors import UnknownAgent
from decisions.models import Agent, AgentVersion
from workspaces.actors import Actor
from workspaces.errors import FieldFault


@dataclass(frozen=True, slots=True)
class CurrentAgent:
    """An agent with the version that decisions recorded now belong to, and that version's action space."""

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


def find_agents(by: Actor, slugs: Iterable[str]) -> dict[str, CurrentAgent]:
    """By slug, in one query for any number of them. Unknown ones are left out."""
    newest = (
        AgentVersion.objects.filter(agent__workspace=by.workspace, agent__slug__in=list(slugs))
        .select_related("agent")
        .order_by("agent_id", "-number")
        .distinct("agent_id")
    )
    return {version.agent.slug: CurrentAgent(version.agent, version, space_of(version)) for version in newest}


def unknown_agent(slug: str) -> FieldFault:
    return FieldFault("agent", f"{slug!r} is unknown here", "an agent's slug")


def get_current_agent(by: Actor, slug: str) -> CurrentAgent:
    """Raises UnknownAgent."""
    current = find_agents(by, [slug]).get(slug)
    if current is None:
        raise UnknownAgent(f"There is no agent {slug!r} with a version in this workspace.")
    return current
