"""The attribution window that a model's feedback needs.

How long feedback takes is known to the ledger (`ledger.Ledger.find_feedback_lag`); `services` and `phases` call
this when a phase starts, `outlook` before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from models_registry.experiments.ledger import get_ledger
from models_registry.models import RegisteredModel

if TYPE_CHECKING:
    from models_registry.statistics.survival import SurvivalCurve

SHORTEST_SECONDS = 86_400.0
LONGEST_SECONDS = 30 * 86_400.0
SHARE = 0.95


def find_curve(model: RegisteredModel, agent: str | None = None) -> SurvivalCurve | None:
    """How long the first feedback takes, on decisions of the model's agents or of one; None where none is known."""
    return get_ledger().find_feedback_lag(model, agent)


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
