"""The reward model that a run's reward names: found among the workspace's versions, placed where the engine reads."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import QuerySet

from decisions.models import Agent
from models_registry.errors import UnknownVersion
from models_registry.models import ArtifactKind, ModelVersion
from models_registry.versions.references import FORMS, find_version, is_reference
from training.engine.spec.run_spec import LEARNED
from workspaces.errors import FieldFault
from workspaces.models import Workspace

WANTED = f"a reward model of this workspace: its ID, {FORMS}"


def find_reward_models(workspace: Workspace) -> QuerySet[ModelVersion]:
    found: QuerySet[ModelVersion] = ModelVersion.objects.for_workspace(workspace)
    return found.filter(artifact__kind=ArtifactKind.REWARD_MODEL).select_related("artifact", "base__artifact")


def find_reward_version(spec: Mapping[str, Any]) -> str | None:
    """The version that the reward of a run's settings names, as they were given."""
    for component in _components(spec):
        if component.get("name") == LEARNED and component.get("version") is not None:
            return str(component["version"])
    return None


def resolve_reward_version(workspace: Workspace, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the id of the version that a reference in the reward names. What names nothing stays: the run's
    check refuses it."""
    reward = spec.get("reward")
    if not isinstance(reward, list) or not any(is_reference(str(one.get("version"))) for one in _components(spec)):
        return dict(spec)
    return {**spec, "reward": [_resolved(workspace, one) for one in reward]}


def _resolved(workspace: Workspace, component: Any) -> Any:
    if not isinstance(component, Mapping) or not is_reference(str(component.get("version"))):
        return component
    try:
        return {**component, "version": str(find_version(workspace, component["version"]).id)}
    except UnknownVersion:
        return component


def find_reward_model_faults(agent: Agent, spec: Mapping[str, Any]) -> list[FieldFault]:
    """Why the run cannot have this reward model. A folder is never taken from outside."""
    faults = []
    for place, component in enumerate(_components(spec)):
        if component.get("source") is not None:
            faults.append(
                FieldFault(f"settings.reward.{place}.source", "is filled in by the run", f"version: {WANTED}")
            )
    named = find_reward_version(spec)
    if named is None:
        return faults
    try:
        found = find_reward_models(agent.workspace).filter(id=uuid.UUID(named)).first()
    except ValueError:
        found = None
    if found is None:
        faults.append(FieldFault("settings.reward", f"{named[:40]!r} is not a reward model here", WANTED))
    elif found.marked_at is not None or found.stored.removed_at is not None:
        faults.append(
            FieldFault("settings.reward", f"{found} learnt from rows that were erased", "another reward model")
        )
    return faults


def place_reward_model(reward: Sequence[Any], source: Mapping[str, str]) -> list[Any]:
    """The reward's components with the folder of its reward model."""
    return [
        {**one, "source": dict(source)} if isinstance(one, Mapping) and one.get("name") == LEARNED else one
        for one in reward
    ]


def _components(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What is none is the engine's spec to refuse."""
    reward = spec.get("reward")
    return [one for one in reward if isinstance(one, Mapping)] if isinstance(reward, list) else []
