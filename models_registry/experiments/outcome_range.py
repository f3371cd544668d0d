"""The outcomes that a model's units can have, [low, high] within [0, 1].

They follow from reward specs, which this floor does not know: the ledger finds them, when an experiment starts.
"""

from __future__ import annotations

from models_registry.experiments.ledger import get_ledger
from models_registry.models import RegisteredModel


def find_range(model: RegisteredModel) -> tuple[float, float]:
    """The whole of [0, 1] where nobody knows better."""
    known = get_ledger().find_outcome_range(model)
    return known if known is not None and known[0] < known[1] else (0.0, 1.0)
