"""What a model's agents met lately, or one of them: how many new units, and what came of their decisions.

The ledger knows (`ledger.Ledger.find_recent_traffic`); `outlook` asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from models_registry.experiments.ledger import Traffic, get_ledger
from models_registry.models import RegisteredModel

if TYPE_CHECKING:  # numpy, which most commands need not load
    from models_registry.experiments.guardrails import GuardrailPlan


def find_traffic(
    model: RegisteredModel, guardrails: Sequence[GuardrailPlan], agent: str | None = None
) -> Traffic | None:
    """None where nobody knows. Raises InvalidInput for an agent that is not the model's."""
    return get_ledger().find_recent_traffic(model, guardrails, agent)
