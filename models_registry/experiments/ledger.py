"""What experiments need to know of the ledger, which is a floor above: the ledger sets its implementation at start-up.

`decisions.registry_ledger` implements it; `feedback_lag`, `traffic`, `holdouts`, `promotion` and
`outcome_range` call it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from models_registry.models import Holdout, RegisteredModel, Variant
from workspaces.access.actors import Actor

if TYPE_CHECKING:  # numpy, which most commands need not load
    from models_registry.experiments.guardrails import GuardrailPlan
    from models_registry.statistics.holdouts import ArmSums
    from models_registry.statistics.survival import SurvivalCurve
    from models_registry.statistics.time_to_verdict import Arrivals


@dataclass(frozen=True, slots=True)
class Sums:
    """Of one week since the start (0 for the first), or of the whole time (None)."""

    week: int | None
    served: ArmSums
    held: ArmSums


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


class Ledger(Protocol):
    """Decisions, rewards and agents, as far as a model's experiments depend on them."""

    def find_feedback_lag(self, model: RegisteredModel, agent: str | None = None) -> SurvivalCurve | None:
        """Returns the curve of the seconds from a decision to its first feedback, those without any included, of the
        model's agents or of the one with this slug; None where no decision is known."""

    def find_recent_traffic(
        self, model: RegisteredModel, guardrails: Sequence[GuardrailPlan], agent: str | None = None
    ) -> Traffic | None:
        """Returns None for a model whose versions decided too little to tell. Raises InvalidInput for an agent that is
        not the model's."""

    def count_holdout_units(self, holdout: Holdout, now: dt.datetime) -> Sequence[Sums]:
        """Counts a holdout's units with a reward until a moment."""

    def adopt_setup(self, *, by: Actor, variant: Variant) -> None:
        """Makes the set-up of a promoted variant its agent's own. Call inside the transaction of the promotion."""

    def find_outcome_range(self, model: RegisteredModel) -> tuple[float, float] | None:
        """Returns None for a model whose outcomes are unknown."""


_ledger: Ledger | None = None


def set_ledger(ledger: Ledger) -> None:
    """Sets the implementation, once, when the ledger's app is ready."""
    global _ledger
    _ledger = ledger


def get_ledger() -> Ledger:
    assert _ledger is not None, "decisions.apps sets the ledger at start-up"
    return _ledger
