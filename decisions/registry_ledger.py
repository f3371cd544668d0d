"""The ledger as experiments see it (`models_registry.experiments.ledger`); the app sets it at start-up."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

from models_registry.models import Holdout, RegisteredModel, Variant
from workspaces.access.actors import Actor

if TYPE_CHECKING:
    from models_registry.experiments.guardrails import GuardrailPlan
    from models_registry.experiments.ledger import Sums, Traffic
    from models_registry.statistics.survival import SurvivalCurve


class RegistryLedger:
    """Implements `Ledger`. Each method imports what it calls, which keeps the start of every command light."""

    def find_feedback_lag(self, model: RegisteredModel, agent: str | None = None) -> SurvivalCurve | None:
        from decisions.rewards.feedback_lag import find_feedback_lag

        return find_feedback_lag(model, agent)

    def find_recent_traffic(
        self, model: RegisteredModel, guardrails: Sequence[GuardrailPlan], agent: str | None = None
    ) -> Traffic | None:
        from decisions.rewards.recent_traffic import find_recent_traffic

        return find_recent_traffic(model, guardrails, agent)

    def count_holdout_units(self, holdout: Holdout, now: dt.datetime) -> Sequence[Sums]:
        from decisions.rewards.holdouts import count_units

        return count_units(holdout, now)

    def adopt_setup(self, *, by: Actor, variant: Variant) -> None:
        from decisions.agents.adopting import adopt_version

        adopt_version(by, variant)

    def find_outcome_range(self, model: RegisteredModel) -> tuple[float, float] | None:
        from decisions.rewards.attainable import find_outcome_range

        return find_outcome_range(model)
