"""Changes an agent by a new version, based on the current one.

The page and the API call `revise_agent`, and `switch_agent` for a version that is there already. Two people who edit at
once cannot overwrite each other: the second gets the current version, and `rebase_setup` says what their change means
for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from django.db import transaction

from decisions.agents.arm_setups import find_experiment_on
from decisions.agents.current import find_current_version
from decisions.agents.services import AgentSetup, check_setup, create_agent_version, use_agent_version
from decisions.errors import OutdatedVersion, UnknownAgent
from decisions.models import Agent, AgentVersion
from models_registry.errors import ExperimentRunning
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault

FIELDS = tuple(field.name for field in fields(AgentSetup))


@dataclass(frozen=True, slots=True)
class Revision:
    """The version that was made; `changed` names the fields that differ. Where it names none, no version was made, and
    this is the current one."""

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
def revise_agent(*, by: Actor, agent: Agent, expected: int, changes: Mapping[str, Any], acts: bool = True) -> Revision:
    """The next version: the current one with these fields of an AgentSetup. Unchanged content makes none.

    `expected` is the number of the version that the caller knew. acts: whether the version is used from now on, or only
    kept, to be tried. Raises OutdatedVersion when `expected` is not the current one, UnknownAgent for an agent without
    a version, InvalidInput or InvalidTemplate for a set-up that is not usable, and ExperimentRunning where the version
    would act while an experiment compares versions of this agent.
    """
    # Whoever makes a version holds this row, so the current one stays that until this one is made.
    locked = Agent.objects.for_workspace(by.workspace).select_for_update(of=("self",)).get(id=agent.id)
    current = find_current_version(locked)
    if current is None:
        raise UnknownAgent(f"The agent {agent.slug!r} has no version to change.")
    if expected != current.number:
        raise OutdatedVersion(
            f"The current version of {agent.slug!r} is {current.number}, and this change is based on {expected}. "
            "Read the agent again, then repeat the change.",
            faults=[FieldFault("expected_version", f"{expected} is not the current version", str(current.number))],
        )
    old = setup_of(current)
    new = replace(old, **changes)
    check_setup(new)
    changed = find_changes(old, new)
    if not changed:
        return Revision(current, ())
    if acts:
        _refuse_while_compared(agent)
    return Revision(create_agent_version(by=by, agent=agent, setup=new, changed=changed, acts=acts), changed)


@transaction.atomic
def switch_agent(*, by: Actor, version: AgentVersion) -> None:
    """An earlier version, or one that was kept, acts for its agent from now on. Nothing changes where it does already.

    Raises ExperimentRunning while an experiment compares versions of this agent.
    """
    agent = Agent.objects.for_workspace(by.workspace).select_for_update(of=("self",)).get(id=version.agent_id)
    if find_current_version(agent) != version:
        _refuse_while_compared(agent)
        use_agent_version(by=by, version=version)


def _refuse_while_compared(agent: Agent) -> None:
    """Call with the agent's row locked: experiments on its versions start under it."""
    if (experiment := find_experiment_on(agent)) is not None:
        raise ExperimentRunning(
            f"“{experiment}” compares versions of {agent.slug!r}, which stay as they are until it ends. Stop it first."
        )
