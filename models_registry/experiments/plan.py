"""What one decides before an experiment starts, and its faults.

The form, the API and loops make plans; `experiments` starts what they say, `outlook` tells how long it may take.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from models_registry.experiments.exploring import MEASURES, find_exploring_faults
from models_registry.experiments.guardrails import DEFAULT_GUARDRAILS, GuardrailPlan, find_guardrail_faults
from models_registry.models.holdout_bounds import HOLDOUT_SECONDS, find_holdout_faults
from models_registry.statistics.ramp import RAMP_E, RAMP_UNITS
from workspaces.errors import FieldFault, InvalidInput

MAX_WINDOW_SECONDS = 30 * 86_400
MAX_SECONDS = 366 * 86_400
MAX_E = 1e12
MAX_UNITS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ExperimentPlan:
    """What one decides when starting: the share and every bound of the rule (docs/experiments.md).

    ramp: the shares of later phases. attribution_window_seconds: None to find it at the start of each phase.
    smallest_effect: the difference of mean outcomes that is worth finding, which the estimate of the time stands on.
    futility_e: evidence at which an experiment whose treatment is not that much better is given up; None for never.
    holdout_share, holdout_seconds: the part of the units that keeps today's champion after a promotion, 0 for none, and
    for how long (`models_registry.experiments.holdouts`).
    secondary, slices: what is looked at beside and decides nothing: measures of `exploring.MEASURES` or names of reward
    components, and fields of the state.
    """

    treatment_share: float = 0.5
    ramp: tuple[float, ...] = ()
    ramp_units: int = RAMP_UNITS
    ramp_e: float = RAMP_E
    attribution_window_seconds: float | None = 86_400.0
    exposure_window_seconds: float = 86_400.0
    promote_e: float = 40.0
    rollback_e: float = 20.0
    min_units_per_arm: int = 500
    min_seconds: float = 7 * 86_400.0
    missing: str = "exclude"
    guardrails: tuple[GuardrailPlan, ...] = DEFAULT_GUARDRAILS
    guardrail_e: float = 20.0
    max_excess_failures: float = 0.05
    min_requests_for_failures: int = 100
    conditioned: bool = True
    rescaled: bool = True
    smallest_effect: float = 0.05
    futility_e: float | None = None
    secondary: tuple[str, ...] = tuple(MEASURES)
    slices: tuple[str, ...] = ()
    holdout_share: float = 0.0
    holdout_seconds: float = HOLDOUT_SECONDS


def check_plan(plan: ExperimentPlan) -> None:
    """Gathers every fault. Raises InvalidInput."""
    faults = []
    if not 0 < plan.treatment_share < 1:
        faults.append(
            FieldFault("treatment_share", f"{plan.treatment_share} must be above 0 and below 1", "for example 0.5")
        )
    shares = (plan.treatment_share, *plan.ramp)
    if any(not before < share < 1 for before, share in pairwise(shares)):
        reason = f"{', '.join(f'{share:g}' for share in plan.ramp)} must grow from the first share, and stay below 1"
        faults.append(FieldFault("ramp", reason, "for example 0.25, 0.5 after a share of 0.05"))
    for name in ("attribution_window_seconds", "exposure_window_seconds"):
        seconds = getattr(plan, name)
        if seconds is not None and not 0 <= seconds <= MAX_WINDOW_SECONDS:
            faults.append(FieldFault(name, "must be 0 to 30 days", "seconds"))
    for name in ("promote_e", "rollback_e", "guardrail_e", "ramp_e", "futility_e"):
        bound = getattr(plan, name)
        if bound is not None and not 1 < bound <= MAX_E:
            faults.append(
                FieldFault(name, "must be above 1, as no evidence at all gives 1", "more than 1, usually 20 to 100")
            )
    for name in ("min_units_per_arm", "min_requests_for_failures", "ramp_units"):
        if not 1 <= getattr(plan, name) <= MAX_UNITS:
            faults.append(FieldFault(name, "out of range", f"1 to {MAX_UNITS}"))
    if not 0 < plan.smallest_effect <= 1:
        faults.append(FieldFault("smallest_effect", "must be above 0, up to 1", "0.05 is 5 points of the reward"))
    if not 0 < plan.max_excess_failures <= 1:
        faults.append(FieldFault("max_excess_failures", "must be above 0, up to 1", "0.05 is 5 points"))
    if not 0 <= plan.min_seconds <= MAX_SECONDS:
        faults.append(FieldFault("min_seconds", "must be 0 to 366 days", "seconds"))
    if plan.missing not in {"exclude", "zero"}:
        faults.append(FieldFault("missing", f"{plan.missing!r} is unknown", "exclude or zero"))
    if plan.holdout_share:
        faults += find_holdout_faults(plan.holdout_share, plan.holdout_seconds, prefix="holdout_")
    faults += find_guardrail_faults(plan.guardrails)
    faults += find_exploring_faults(plan.secondary, plan.slices)
    if faults:
        raise InvalidInput("The experiment cannot start with these settings.", faults=faults)
