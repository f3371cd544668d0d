"""Guardrails of experiments: their plan, its faults, and the evidence so far.

`experiments` checks and stores plans and hands the evidence to the promotion rule; `decisions.rewards.maturing`
measures the units. The arithmetic is in `statistics.guardrails`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from models_registry.models import Experiment, GuardrailMeasure
from models_registry.statistics.e_process import NOTHING, Past
from models_registry.statistics.guardrails import run_guardrail
from models_registry.statistics.promotion import Guardrail
from workspaces.errors import FieldFault

MAX_BUDGET_MS = 3_600_000.0
MAX_BUDGET_COST = 1_000_000.0
BUDGETS = {
    GuardrailMeasure.LATENCY.value: ("budget_ms", MAX_BUDGET_MS, "milliseconds"),
    GuardrailMeasure.COST.value: ("budget_cost", MAX_BUDGET_COST, "in the currency of the prices"),
}
"""The field of a measure's budget, the most that it may be, and its unit."""


@dataclass(frozen=True, slots=True)
class GuardrailPlan:
    """One measure in [0, 1], higher is worse, and the worsening of its mean that is tolerated.

    measure: `error_rate`, the share of a unit's decisions that the arm assigned could not serve; `latency`, the
        share that took longer than `budget_ms`; `cost`, the share of those with a recorded cost that cost more than
        `budget_cost`; `invalid_answers`, the share of the calls in which an answer of the arm did not fit the
        agent's action, so that the question was asked elsewhere; or `missing_feedback`, 1 where nothing of the unit was
        rewarded in time. Where such units are left out of the outcome, an arm must not win by silencing those that it
        serves badly.
    margin: in (0, 1); 0.01 is one point. budget_ms, budget_cost: of one decision, the latter in the currency of the
        backends' prices.
    """

    measure: str
    margin: float
    budget_ms: float | None = None
    budget_cost: float | None = None

    def as_stored(self) -> dict[str, Any]:
        """The entry of `Experiment.guardrails`."""
        return {name: value for name, value in asdict(self).items() if value is not None}


DEFAULT_GUARDRAILS = (
    GuardrailPlan(GuardrailMeasure.ERROR_RATE.value, margin=0.01),
    GuardrailPlan(GuardrailMeasure.LATENCY.value, margin=0.02, budget_ms=1000.0),
    GuardrailPlan(GuardrailMeasure.MISSING_FEEDBACK.value, margin=0.05),
)


@dataclass(frozen=True, slots=True)
class MeasuredUnit:
    """A matured unit as guardrails see it: its arm, P(treatment) of its phase, and its measures by name."""

    treated: bool
    treatment_share: float
    measures: Mapping[str, float]


def find_guardrail_faults(guardrails: Sequence[GuardrailPlan]) -> list[FieldFault]:
    """Every fault of a plan's guardrails, each under the name of its own field."""
    faults = []
    seen: set[str] = set()
    for index, plan in enumerate(guardrails):
        path = f"guardrails[{index}]."
        if plan.measure not in GuardrailMeasure.values:
            expected = ", ".join(GuardrailMeasure.values)
            faults.append(FieldFault(f"{path}measure", f"{plan.measure!r} is unknown", expected))
        elif plan.measure in seen:
            faults.append(FieldFault(f"{path}measure", f"{plan.measure} has two guardrails", "each measure once"))
        seen.add(plan.measure)
        if not 0 < plan.margin < 1:
            faults.append(
                FieldFault(f"{path}margin", f"{plan.margin} must be above 0 and below 1", "0.01 is one point")
            )
        faults += [
            FieldFault(f"{path}{name}", reason, expected)
            for measure, (name, most, unit) in BUDGETS.items()
            for reason, expected in _find_budget_faults(plan, getattr(plan, name), measure, most, unit)
        ]
    return faults


def _find_budget_faults(
    plan: GuardrailPlan, budget: float | None, measure: str, most: float, unit: str
) -> list[tuple[str, str]]:
    if plan.measure == measure and (budget is None or not 0 < budget <= most):
        return [("is missing or out of range", f"above 0, {unit}")]
    if plan.measure != measure and budget is not None:
        return [(f"is not used by {plan.measure}", "leave it out")]
    return []


def read_guardrails(stored: Sequence[Mapping[str, Any]]) -> list[GuardrailPlan]:
    """`Experiment.guardrails` as plans."""
    return [GuardrailPlan(**entry) for entry in stored]


def go_on_with_guardrails(
    plans: Sequence[GuardrailPlan], units: Sequence[MeasuredUnit], past: Mapping[str, Past]
) -> dict[str, Past]:
    """Each guardrail's test by measure after `units`, in exposure order, which come after those that `past` knows.

    A unit on which a measure is not known says nothing about it.
    """
    ends = {}
    for plan in plans:
        known = [unit for unit in units if plan.measure in unit.measures]
        process = run_guardrail(
            np.array([unit.treated for unit in known], dtype=float),
            np.array([unit.treatment_share for unit in known], dtype=float),
            np.array([unit.measures[plan.measure] for unit in known], dtype=float),
            margin=plan.margin,
            past=past.get(plan.measure, NOTHING),
        )
        assert process.end is not None  # of one sequence
        ends[plan.measure] = process.end
    return ends


def summarise_guardrails(ends: Mapping[str, Past]) -> dict[str, dict[str, float]]:
    """The evidence by measure as `Experiment.guardrail_evidence` stores it; without any unit, E is 1."""
    return {
        measure: {
            "log_e_non_inferior": end.log_e_minus,
            "log_e_harm": end.log_e_plus,
            "estimate": end.contrasts / end.units if end.units else 0.0,
            "units": end.units,
        }
        for measure, end in ends.items()
    }


def as_evidence(evidence: Mapping[str, Mapping[str, float]]) -> tuple[Guardrail, ...]:
    """`Experiment.guardrail_evidence` as the promotion rule reads it."""
    return tuple(
        Guardrail(
            GuardrailMeasure(measure).label, state["log_e_non_inferior"], state["log_e_harm"], int(state["units"])
        )
        for measure, state in evidence.items()
    )


def list_guardrails(experiment: Experiment) -> list[tuple[GuardrailPlan, dict[str, float], float]]:
    """Each guardrail with its evidence so far (E = 1 before the first unit) and the E at which its harm is shown."""
    plans = read_guardrails(experiment.guardrails)
    evidence = summarise_guardrails({plan.measure: NOTHING for plan in plans}) | experiment.guardrail_evidence
    return [(plan, evidence[plan.measure], experiment.rollback_e * len(plans)) for plan in plans]
