"""Reads for the pages of agents: each agent with its current version, its champion, and its number of decisions."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection
from django.db.models import Q

from decisions.agents.current import current_versions
from decisions.agents.differences import TITLES
from decisions.agents.revising import find_changes, setup_of
from decisions.models import Agent, AgentVersion
from models_registry.models import (
    Alias,
    AliasName,
    Experiment,
    ExperimentState,
    ModelVersion,
    RegisteredModel,
)
from workspaces.models import AuditEntry, Workspace
from workspaces.storage.ids import uuid7_bound
from workspaces.storage.index_order import read_in_index_order

AGENTS, VERSIONS = 100, 20
CLOCK = dt.timedelta(minutes=1)
COUNTED = 1_000
"""Decisions of an agent are counted up to so many, so that a page costs the same over any ledger."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Decisions of one agent, at most COUNTED of them, and when the newest one was made."""

    counted: int = 0
    last: dt.datetime | None = None

    @property
    def shown(self) -> str:
        """As a page writes it: 412, or 1,000+."""
        return f"{COUNTED:,}+" if self.counted > COUNTED else f"{self.counted:,}"


@dataclass(frozen=True, slots=True)
class AgentLine:
    """One agent of the list; `version` and `champion` are None where there is none."""

    agent: Agent
    version: AgentVersion | None
    champion: ModelVersion | None
    activity: Activity


@dataclass(frozen=True, slots=True)
class VersionLine:
    """One version of an agent: who made it, and what it changed of the version before it, in words."""

    version: AgentVersion
    made_by: str
    changed: tuple[str, ...]


def list_agents(workspace: Workspace, *, after: Agent | None = None) -> tuple[list[AgentLine], bool]:
    """The first AGENTS by name (of those after one), and whether there are more. Four statements, however many agents
    or decisions there are."""
    found = Agent.objects.for_workspace(workspace).order_by("name", "id")
    if after is not None:
        found = found.filter(Q(name__gt=after.name) | Q(name=after.name, id__gt=after.id))
    agents = list(found[: AGENTS + 1])
    more, agents = len(agents) > AGENTS, agents[:AGENTS]
    acting = current_versions(agents).defer("prompt_template", "system_prompt", "action_schema", "state_schema")
    versions = {version.agent_id: version for version in acting}
    champions = _find_champions([agent.registered_model_id for agent in agents if agent.registered_model_id])
    activity = find_activity([agent.id for agent in agents])
    lines = [
        AgentLine(agent, versions.get(agent.id), champions.get(agent.registered_model_id), activity[agent.id])
        for agent in agents
    ]
    return lines, more


def _find_champions(models: Sequence[uuid.UUID]) -> dict[uuid.UUID | None, ModelVersion]:
    aliases = Alias.objects.filter(registered_model__in=models, name=AliasName.CHAMPION)
    return {alias.registered_model_id: alias.version for alias in aliases.select_related("version__registered_model")}


# The limit inside keeps each agent to a short range of its index.
_ACTIVITY = """
SELECT wanted.id, found.counted, newest.observed_at
  FROM unnest(%s::uuid[]) AS wanted(id)
 CROSS JOIN LATERAL (
   SELECT count(*) AS counted
     FROM (SELECT id FROM decisions_decision WHERE agent_id = wanted.id ORDER BY id DESC LIMIT %s) d
 ) found
  LEFT JOIN LATERAL (
   SELECT observed_at FROM decisions_decision WHERE agent_id = wanted.id ORDER BY id DESC LIMIT 1
 ) newest ON true
"""


def find_activity(agents: Sequence[uuid.UUID]) -> dict[uuid.UUID, Activity]:
    """By the agent's id; one statement."""
    with read_in_index_order(), connection.cursor() as cursor:
        cursor.execute(_ACTIVITY, [list(agents), COUNTED + 1])
        return {agent: Activity(counted, newest) for agent, counted, newest in cursor.fetchall()}


def find_agent_version(model: RegisteredModel) -> AgentVersion | None:
    """The version that acts for the agent of this model; None where there is none."""
    return current_versions(model.agents.order_by("id")[:1]).select_related("agent").first()


def find_champion(agent: Agent) -> ModelVersion | None:
    model = agent.registered_model_id
    return _find_champions([model]).get(model) if model is not None else None


def find_running_experiment(agent: Agent) -> Experiment | None:
    running = Experiment.objects.filter(registered_model=agent.registered_model_id, state=ExperimentState.RUNNING)
    return running.order_by("-id").first()


def list_versions(agent: Agent, *, before: int | None = None) -> tuple[list[VersionLine], int | None]:
    """The newest VERSIONS (with a number below `before`), and the number before which there are more. Two statements:
    one version more is read, since the last line is told by what it changed of it."""
    found = agent.versions.order_by("-number")
    if before is not None:
        found = found.filter(number__lt=before)
    versions = list(found[: VERSIONS + 1])
    targets = [f"agent_version:{version.id}" for version in versions]
    made_by: dict[str, str] = {}
    if versions:
        # An entry is written right after its version: the ids of older ones are not looked at.
        since = uuid7_bound(versions[-1].created_at - CLOCK)
        entries = AuditEntry.objects.filter(workspace=agent.workspace_id, id__gte=since, target__in=targets)
        made_by = dict(entries.filter(action="agent_version.created").values_list("target", "actor"))
    lines = [
        VersionLine(version, made_by.get(target, ""), _name_changes(older, version))
        for version, target, older in zip(versions, targets, [*versions[1:], None], strict=True)
    ]
    return lines[:VERSIONS], versions[VERSIONS - 1].number if len(versions) > VERSIONS else None


def _name_changes(older: AgentVersion | None, version: AgentVersion) -> tuple[str, ...]:
    return tuple(TITLES[name] for name in find_changes(setup_of(older), setup_of(version))) if older else ()
