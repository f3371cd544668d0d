"""Secondary measures and slices of an experiment's matured units, from their decisions.

`decisions.rewards.maturing` calls it; `models_registry.experiments.exploring` says what they are for.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from decisions.models import Decision
from decisions.rewards.valuing import Valued
from models_registry.experiments.exploring import MEASURES, NONE, name_slice
from models_registry.models import Experiment


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision of a unit's exposure window, as outcomes, guardrails and secondary measures need it.

    valid: whether the version assigned answered with what was asked for; None where its call is not known."""

    id: uuid.UUID
    agent_id: uuid.UUID
    version_id: uuid.UUID | None
    agent_version_id: uuid.UUID | None
    latency_ms: float | None
    cost: float | None
    valid: bool | None
    recorded_at: dt.datetime
    confidence: float | None
    tokens: int | None


Measured = dict[uuid.UUID, dict[str, float]]
Sliced = dict[uuid.UUID, dict[str, str]]


def explore_units(
    experiment: Experiment, decided: Mapping[uuid.UUID, Sequence[Decided]], valued: Mapping[uuid.UUID, Valued]
) -> tuple[Measured, Sliced]:
    """Both by exposure. A measure is the mean over the unit's decisions that tell it; a slice is the value that its
    first decision's state had, before any arm could change it. One query, where the experiment has slices."""
    secondary = {
        exposure_id: {
            name: sum(found) / len(found)
            for name in experiment.secondary
            if (found := _read_measure(name, decisions, valued))
        }
        for exposure_id, decisions in decided.items()
    }
    if not experiment.slices:
        return secondary, {}
    firsts = {min(decisions, key=lambda one: (one.recorded_at, one.id)).id: key for key, decisions in decided.items()}
    states = Decision.objects.filter(id__in=firsts).values_list("id", "state")
    slices = {
        firsts[decision_id]: {
            name: name_slice(state.get(name)) if isinstance(state, dict) else NONE for name in experiment.slices
        }
        for decision_id, state in states
    }
    return secondary, slices


def _read_measure(name: str, decisions: Sequence[Decided], valued: Mapping[uuid.UUID, Valued]) -> list[float]:
    if name == "decisions":
        return [float(len(decisions))]
    if name in MEASURES:
        return [float(value) for one in decisions if (value := getattr(one, name)) is not None]
    parts = [valued[one.id].components.get(name, {}) for one in decisions if one.id in valued]
    return [float(part["value"]) for part in parts if part.get("value") is not None]
