"""Reward specs: the components of an agent's reward, with their weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from django.db import transaction
from django.db.models import Max

from decisions.errors import InvalidRewardSpec
from decisions.models import (
    Agent,
    RewardSpec,
)
from decisions.rewards.calculate import SQL_COMPONENTS
from decisions.rewards.components import COMPONENTS
from workspaces.actors import Actor
from workspaces.errors import FieldFault
from workspaces.models import Workspace
from workspaces.services import record_audit


@dataclass(frozen=True, slots=True)
class ComponentSetup:
    name: str
    weight: float = 1.0
    parameters: Mapping[str, Any] = field(default_factory=dict)


# Weights that keep sums and products far from the ends of a float8.
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-6, 1e6
DEFAULT_COMPONENTS = (ComponentSetup("verdict", 1.0),)


@transaction.atomic
def create_reward_spec(*, by: Actor, agent: Agent, components: Sequence[ComponentSetup]) -> RewardSpec:
    """The next reward spec of the agent. Raises InvalidRewardSpec with every fault."""
    faults = []
    names = [component.name for component in components]
    if not components:
        faults.append(FieldFault("components", "none given", "at least one component"))
    for index, name in enumerate(names):
        if name not in COMPONENTS:
            faults.append(FieldFault(f"components[{index}].name", f"{name!r} is unknown", ", ".join(COMPONENTS)))
        elif name not in SQL_COMPONENTS:
            known = ", ".join(SQL_COMPONENTS)
            faults.append(FieldFault(f"components[{index}].name", f"{name} is only for new decisions", known))
        elif names.index(name) != index:
            faults.append(FieldFault(f"components[{index}].name", f"{name} appears twice", "each component once"))
    for index, component in enumerate(components):
        if component.weight != 0 and not SMALLEST_WEIGHT <= abs(component.weight) <= LARGEST_WEIGHT:
            faults.append(
                FieldFault(
                    f"components[{index}].weight",
                    f"{component.weight} is out of range",
                    f"0, or {SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g} up or down",
                )
            )
    if faults:
        raise InvalidRewardSpec("The reward spec is invalid.", faults=faults)
    plain = [{"name": c.name, "weight": c.weight, "parameters": dict(c.parameters)} for c in components]
    Agent.objects.select_for_update().get(id=agent.id)
    last = agent.reward_specs.aggregate(last=Max("number"))["last"] or 0
    spec = RewardSpec(workspace=by.workspace, agent=agent, number=last + 1, components=plain)
    content = msgspec.json.encode([plain, spec.clamp, spec.low, spec.high], order="deterministic")
    spec.spec_hash = hashlib.sha256(content).hexdigest()
    spec.save(force_insert=True)
    record_audit(by=by, action="reward_spec.created", target=f"reward_spec:{spec.id}")
    return spec


def current_reward_spec(agent: Agent) -> RewardSpec:
    return agent.reward_specs.order_by("-number")[0]


def find_specs(workspace: Workspace, kind: str | None = None) -> list[RewardSpec]:
    """The current reward spec of each agent, of one kind or of all."""
    agents = Agent.objects.for_workspace(workspace)
    if kind is not None:
        agents = agents.filter(kind=kind)
    return list(RewardSpec.objects.filter(agent__in=agents).order_by("agent_id", "-number").distinct("agent_id"))
