"""Reward specs: the components of an agent's reward, with their weights."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
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
from decisions.rewards.components import COMPONENTS, FRESH_ONLY
from decisions.rewards.components.rules import InvalidRule, component_of
from decisions.rewards.valuing import raw_range
from workspaces.actors import Actor
from workspaces.errors import FieldFault
from workspaces.models import Workspace
from workspaces.services import record_audit


@dataclass(frozen=True, slots=True)
class RuleSetup:
    """A rule (`decisions.rewards.components.rules`) and the range that its value keeps."""

    text: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ComponentSetup:
    """One component of a spec. `window_days` and `missing` are the component's own unless given; None takes them
    away. With a `rule` it is the spec's own, and its name begins with `rule.`."""

    name: str
    weight: float = 1.0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    window_days: float | msgspec.UnsetType | None = msgspec.UNSET
    missing: float | msgspec.UnsetType | None = msgspec.UNSET
    rule: RuleSetup | None = None

    def stored(self) -> dict[str, Any]:
        told: dict[str, Any] = {"name": self.name, "weight": self.weight, "parameters": dict(self.parameters)}
        if self.rule is not None:
            told["rule"] = {"text": self.rule.text, "low": self.rule.low, "high": self.rule.high}
        more = {"window_days": self.window_days, "missing": self.missing}
        return told | {name: value for name, value in more.items() if value is not msgspec.UNSET}


# Weights that keep sums and products far from the ends of a float8.
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-6, 1e6
LONGEST_WINDOW_DAYS = 3650
RULE_NAME = re.compile(r"rule\.[a-z][a-z0-9_]{0,59}")


@transaction.atomic
def create_reward_spec(*, by: Actor, agent: Agent, components: Sequence[ComponentSetup]) -> RewardSpec:
    """The next reward spec of the agent. Raises InvalidRewardSpec with every fault."""
    faults = []
    names = [component.name for component in components]
    if not components:
        faults.append(FieldFault("components", "none given", "at least one component"))
    for index, component in enumerate(components):
        if names.index(component.name) != index:
            faults.append(
                FieldFault(f"components[{index}].name", f"{component.name} appears twice", "each component once")
            )
        faults += _component_faults(component, f"components[{index}]")
    if faults:
        raise InvalidRewardSpec("The reward spec is invalid.", faults=faults)
    plain = [component.stored() for component in components]
    signal = next((told["name"] for told in plain if component_of(told).right is not None), "")
    Agent.objects.select_for_update().get(id=agent.id)
    last = agent.reward_specs.aggregate(last=Max("number"))["last"] or 0
    spec = RewardSpec(workspace=by.workspace, agent=agent, number=last + 1, components=plain, signal=signal)
    spec.training_low, spec.training_high = _training_range(spec)
    told = [plain, spec.clamp, spec.low, spec.high, spec.signal, spec.training_low, spec.training_high]
    content = msgspec.json.encode(told, order="deterministic")
    spec.spec_hash = hashlib.sha256(content).hexdigest()
    spec.save(force_insert=True)
    record_audit(by=by, action="reward_spec.created", target=f"reward_spec:{spec.id}")
    return spec


def _training_range(spec: RewardSpec) -> tuple[float, float]:
    """Raw rewards that are 0 and 1 to training: what a wrong action earns, and the most that an action can earn. Where
    nothing says what is wrong, or right earns less, all that is attainable."""
    low, high = raw_range(spec.components, clamp=spec.clamp)
    for told in spec.components:
        ends = component_of(told).right_and_wrong(told["parameters"])
        if told["name"] == spec.signal and ends is not None and told["weight"] > 0:
            low = max(-spec.clamp, told["weight"] * ends[1])
    return (low, high) if low < high else (spec.low, spec.high)


def _component_faults(setup: ComponentSetup, field: str) -> Iterator[FieldFault]:
    known = COMPONENTS.get(setup.name)
    if setup.rule is not None:
        try:
            known = component_of(setup.stored())
        except InvalidRule as error:
            yield FieldFault(f"{field}.rule", f"column {error.column}: {error.fault}", error.wanted)
            return
        if not RULE_NAME.fullmatch(setup.name):
            right = "rule. and small letters, digits or _, such as rule.quick"
            yield FieldFault(f"{field}.name", f"{setup.name!r} is no name for a rule", right)
    if known is None or setup.name in FRESH_ONLY:
        reason = f"{setup.name!r} is unknown" if known is None else f"{setup.name} is only for new decisions"
        yield FieldFault(f"{field}.name", reason, ", ".join(name for name in COMPONENTS if name not in FRESH_ONLY))
        return
    if setup.weight != 0 and not SMALLEST_WEIGHT <= abs(setup.weight) <= LARGEST_WEIGHT:
        right = f"0, or {SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g} up or down"
        yield FieldFault(f"{field}.weight", f"{setup.weight} is out of range", right)
    for fault in known.parameter_faults(setup.parameters):
        name, _, reason = fault.partition(" ")
        yield FieldFault(f"{field}.parameters.{name}", reason, f"such as {dict(known.parameters)}")
    window = known.window_days if setup.window_days is msgspec.UNSET else setup.window_days
    missing = known.missing if setup.missing is msgspec.UNSET else setup.missing
    if window is not None and not 0 < window <= LONGEST_WINDOW_DAYS:
        right = f"days above 0, up to {LONGEST_WINDOW_DAYS}"
        yield FieldFault(f"{field}.window_days", f"{window} is out of range", right)
    if missing is not None and window is None:
        yield FieldFault(f"{field}.missing", "given without a window", "window_days: when missing becomes final")
    elif missing is not None and not known.low <= missing <= known.high:
        right = f"{known.low:g} to {known.high:g}"
        yield FieldFault(f"{field}.missing", f"{missing} is out of the component's range", right)


def current_reward_spec(agent: Agent) -> RewardSpec:
    return agent.reward_specs.order_by("-number")[0]


def find_specs(workspace: Workspace, kind: str | None = None) -> list[RewardSpec]:
    """The current reward spec of each agent, of one kind or of all."""
    agents = Agent.objects.for_workspace(workspace)
    if kind is not None:
        agents = agents.filter(kind=kind)
    return list(RewardSpec.objects.filter(agent__in=agents).order_by("agent_id", "-number").distinct("agent_id"))
