"""Reads which version of an agent each arm of an experiment acts with. The gateway asks for every request."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from decisions.models import Agent, AgentVersion, ArmSetup
from models_registry.models import Experiment, ExperimentState

MAX_EXPERIMENTS = 256


@dataclass(frozen=True, slots=True)
class ArmSetups:
    """`versions` by arm, all of the one agent that the experiment is on."""

    agent_id: uuid.UUID
    versions: Mapping[str, AgentVersion]


_KNOWN: dict[uuid.UUID, ArmSetups | None] = {}


def find_arm_setups(experiment_id: uuid.UUID) -> ArmSetups | None:
    """None of an experiment on model versions alone. Read once in a process: they never change."""
    if experiment_id not in _KNOWN:
        rows = ArmSetup.objects.filter(variant__experiment=experiment_id).select_related("variant", "agent_version")
        versions = {row.variant.arm: row.agent_version for row in rows}
        if len(_KNOWN) >= MAX_EXPERIMENTS:
            _KNOWN.clear()
        agent_id = next(iter(versions.values())).agent_id if versions else None
        _KNOWN[experiment_id] = ArmSetups(agent_id, versions) if agent_id is not None else None
    return _KNOWN[experiment_id]


def find_experiment_on(agent: Agent) -> Experiment | None:
    """The running experiment that compares versions of the agent."""
    mine = ArmSetup.objects.filter(agent_version__agent=agent)
    running = Experiment.objects.filter(variants__arm_setup__in=mine, state=ExperimentState.RUNNING)
    return running.distinct().first()
