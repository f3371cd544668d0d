"""Changes an agent by a new version, based on the newest one.

The page and the API call `revise_agent`. Two people who edit at once cannot overwrite each other: the second gets the
newest version, and `rebase_setup` says what their change means for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from django.db import transaction

from decisions.agents.services import AgentSetup, check_setup, create_agent_version
from decisions.errors import OutdatedVersion, UnknownAgent
from decisions.models import Agent, AgentVersion
from workspaces.actors import Actor
from workspaces.errors import FieldFault

FIELDS = tuple(field.name for field in fields(AgentSetup))


@dataclass(frozen=True, slots=True)
class Revision:
    """The newest version afterwards; `changed` names the fields that differ, none where no version was made."""

    version: AgentVersion
    changed: tuple[str, ...]


def setup_of(version: AgentVersion) -> AgentSetup:
    return AgentSetup(**{name: getattr(version, name) for name in FIELDS})


def find_changes(old: AgentSetup, new: AgentSetup) -> tuple[str, ...]:
    """Names of the fields that differ, in their order."""
    return tuple(name for name in FIELDS if _plain(getattr(old, name)) != _plain(getattr(new, name)))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def rebase_setup(*, base: AgentSetup, mine: AgentSetup, newest: AgentSetup) -> AgentSetup:
    """The newest set-up with what `mine` changed of `base`. Where both changed a field, `mine` stays."""
    return replace(newest, **{name: getattr(mine, name) for name in find_changes(base, mine)})


@transaction.atomic
def revise_agent(*, by: Actor, agent: Agent, expected: int, changes: Mapping[str, Any]) -> Revision:
    """The next version: the newest one with these fields of an AgentSetup. Unchanged content makes none.

    `expected` is the number of the version that the caller knew. Raises OutdatedVersion when it is not the newest,
    UnknownAgent for an agent without a version, InvalidInput or InvalidTemplate for a set-up that is not usable.
    """
    # Whoever makes a version holds this row, so the newest stays the newest until this one is made.
    Agent.objects.for_workspace(by.workspace).select_for_update(of=("self",)).get(id=agent.id)
    newest = agent.versions.order_by("-number").first()
    if newest is None:
        raise UnknownAgent(f"The agent {agent.slug!r} has no version to change.")
    if expected != newest.number:
        raise OutdatedVersion(
            f"The newest version of {agent.slug!r} is {newest.number}, and this change is based on {expected}. "
            "Read the agent again, then repeat the change.",
            faults=[FieldFault("expected_version", f"{expected} is not the newest version", str(newest.number))],
        )
    old = setup_of(newest)
    new = replace(old, **changes)
    check_setup(new)
    changed = find_changes(old, new)
    if not changed:
        return Revision(newest, ())
    return Revision(create_agent_version(by=by, agent=agent, setup=new, changed=changed), changed)
