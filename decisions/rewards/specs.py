"""Reward specs: the components of an agent's reward, with their weights."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from django.db import transaction
from django.db.models import Max

from decisions.errors import InvalidRewardSpec
from decisions.models import Agent, RewardSpec
from decisions.rewards.judged import find_judge_faults
from decisions.rewards.spec_content import (
    ComponentSetup,
    RuleSetup,
    SpecContent,
    check_content,
    complete,
    plain_content,
    setup_of,
)
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.models import Workspace

__all__ = [
    "ComponentSetup",
    "RuleSetup",
    "SpecContent",
    "content_of",
    "create_reward_spec",
    "current_reward_spec",
    "find_specs",
]


@transaction.atomic
def create_reward_spec(*, by: Actor, agent: Agent, content: SpecContent, changed: Sequence[str] = ()) -> RewardSpec:
    """The next reward spec of the agent; earlier ones stay as they are. Raises InvalidRewardSpec with every fault.

    `changed` names the fields that differ, for the audit. `decisions.rewards.revising` is for people and programs: it
    knows of others who edit, and has the rewards calculated.
    """
    if faults := check_content(content) or find_judge_faults(agent, content.judges):
        raise InvalidRewardSpec("The reward spec is invalid.", faults=faults)
    Agent.objects.select_for_update().get(id=agent.id)
    last = agent.reward_specs.aggregate(last=Max("number"))["last"] or 0
    spec = RewardSpec.objects.create(workspace=by.workspace, agent=agent, number=last + 1, **columns_of(content))
    details: dict[str, Any] = {"agent": agent.slug, "number": spec.number}
    if changed:
        details["changed"] = list(changed)
    record_audit(by=by, action="reward_spec.created", target=f"reward_spec:{spec.id}", details=details)
    return spec


def columns_of(content: SpecContent) -> dict[str, Any]:
    """What a row of the spec holds: its content, complete, and the hash of it."""
    told = plain_content(complete(content))
    # A content that names no judges has the hash that it had before specs could name any.
    hashed = told if content.judges is not None else {name: told[name] for name in told if name != "judges"}
    return told | {"spec_hash": hashlib.sha256(msgspec.json.encode(hashed, order="deterministic")).hexdigest()}


def content_of(spec: RewardSpec) -> SpecContent:
    """What a spec says, complete. Those of earlier releases keep no defaults."""
    components = [setup_of(told) for told in spec.components]
    return complete(
        SpecContent(
            tuple(components),
            clamp=spec.clamp,
            low=spec.low,
            high=spec.high,
            unknown=spec.unknown,
            credit=spec.credit,
            discount=spec.discount,
            signal=spec.signal,
            training_low=spec.training_low,
            training_high=spec.training_high,
            judges=None if spec.judges is None else tuple(spec.judges),
        )
    )


def current_reward_spec(agent: Agent) -> RewardSpec:
    return agent.reward_specs.order_by("-number")[0]


def find_specs(workspace: Workspace, kind: str | None = None) -> list[RewardSpec]:
    """The current reward spec of each agent, of one kind or of all."""
    agents = Agent.objects.for_workspace(workspace)
    if kind is not None:
        agents = agents.filter(kind=kind)
    return list(RewardSpec.objects.filter(agent__in=agents).order_by("agent_id", "-number").distinct("agent_id"))
