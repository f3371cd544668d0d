"""The attribution window that a model's feedback needs.

How long feedback takes is known to the ledger, which registers the function that finds it
(`decisions.rewards.feedback_lag`); `experiments` and `phases` call it when a phase starts, `outlook` before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from models_registry.models import RegisteredModel

if TYPE_CHECKING:
    from models_registry.statistics.survival import SurvivalCurve

SHORTEST_SECONDS = 86_400.0
LONGEST_SECONDS = 30 * 86_400.0
SHARE = 0.95

LagFinder = Callable[[RegisteredModel, str | None], "SurvivalCurve | None"]

_finders: list[LagFinder] = []


def register_lag(find: LagFinder) -> LagFinder:
    """As a decorator. The finder gives the curve of the seconds from a decision to its first feedback, those without
    any included, of the model's agents or of the one with this slug; None where it knows no decision."""
    _finders.append(find)
    return find


def find_curve(model: RegisteredModel, agent: str | None = None) -> SurvivalCurve | None:
    """How long the first feedback takes, on decisions of the model's agents or of one; None where none is known."""
    return next((curve for find in _finders if (curve := find(model, agent)) is not None), None)


def window_of(curve: SurvivalCurve | None) -> float:
    """Seconds: the 95th percentile of the lag, at least a day and at most 30.

    A day where no feedback is known yet; 30 where more than 5% of the decisions never get any.
    """
    if curve is None or not curve.events:
        return SHORTEST_SECONDS
    reached = curve.quantile(SHARE)
    return LONGEST_SECONDS if reached is None else min(max(reached, SHORTEST_SECONDS), LONGEST_SECONDS)


def find_window(model: RegisteredModel) -> float:
    """`window_of` the model's own lag."""
    return window_of(find_curve(model))
