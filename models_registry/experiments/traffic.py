"""What a model's agents met lately, or one of them: how many new units, and what came of their decisions.

The ledger knows, and registers the function that finds it (`decisions.rewards.recent_traffic`); `outlook` asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from models_registry.models import RegisteredModel

if TYPE_CHECKING:  # numpy, which most commands need not load
    from models_registry.experiments.guardrails import GuardrailPlan
    from models_registry.statistics.time_to_verdict import Arrivals


@dataclass(frozen=True, slots=True)
class Traffic:
    """Decisions of a model's versions, of the last days.

    arrivals: of new units, each counted at its first decision. decisions: how many were looked at closely, from every
    day alike; the rest is about them. variance: of a decision's reward in [0, 1], None where fewer than two have one.
    bad: by guardrail measure, the share of them that were bad; a measure of which nothing is known is not there.
    """

    arrivals: Arrivals
    decisions: int
    variance: float | None
    bad: Mapping[str, float] = field(default_factory=dict)


TrafficFinder = Callable[[RegisteredModel, "Sequence[GuardrailPlan]", str | None], "Traffic | None"]

_finders: list[TrafficFinder] = []


def register_traffic(find: TrafficFinder) -> TrafficFinder:
    """As a decorator. The finder gives None for a model whose versions decided too little to tell; with an agent's slug
    it counts that agent's decisions alone, and raises InvalidInput where the model has no such agent."""
    _finders.append(find)
    return find


def find_traffic(
    model: RegisteredModel, guardrails: Sequence[GuardrailPlan], agent: str | None = None
) -> Traffic | None:
    """None where nobody knows. Raises InvalidInput for an agent that is not the model's."""
    return next((found for find in _finders if (found := find(model, guardrails, agent)) is not None), None)
