"""The range of rewards that an agent's current spec can give: experiments rescale their outcomes by it."""

from __future__ import annotations

from decisions.models import Agent
from decisions.rewards.specs import current_reward_spec
from decisions.rewards.valuing import attainable_range
from models_registry.models import RegisteredModel


def find_outcome_range(model: RegisteredModel) -> tuple[float, float] | None:
    """Over every agent that the model serves; a unit's outcome is a mean of their rewards. None without an agent."""
    ranges = []
    for agent in Agent.objects.filter(registered_model=model):
        spec = current_reward_spec(agent)
        scale = {"clamp": spec.clamp, "low": spec.low, "high": spec.high}
        ranges.append(attainable_range(spec.components, **scale, unknown=spec.unknown))
    if not ranges:
        return None
    return min(low for low, _ in ranges), max(high for _, high in ranges)
