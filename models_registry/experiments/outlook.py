"""How long an experiment may take until its verdict, told before it starts, with what that assumes.

The form, the API and `experiments` ask. The arithmetic is in `statistics.time_to_verdict`, what is known of the traffic
comes from the ledger (`traffic`, `feedback_lag`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from models_registry.experiments.feedback_lag import find_curve, find_window
from models_registry.experiments.outcome_range import find_range
from models_registry.experiments.plan import ExperimentPlan, check_plan
from models_registry.experiments.traffic import Traffic, find_traffic
from models_registry.models import GuardrailMeasure, RegisteredModel
from models_registry.statistics.e_process import CAP, SHARP_CAP
from models_registry.statistics.survival import SurvivalCurve
from models_registry.statistics.time_to_verdict import (
    DURATION,
    UNITS,
    Forecast,
    Hurdle,
    Schedule,
    forecast_verdict,
)
from workspaces.templatetags.show import duration, percent

CONDITIONED_VARIANCE = 0.26
"""Variance of a conditioned contrast as a share of the plain one's: the ratio of the units until E⁺ is reached, as
measured on the demo's versions (docs/results.md). How alike two versions act is not known before they have."""
EVIDENCE = "evidence"
SLOWEST = {
    EVIDENCE: "the evidence of the reward",
    UNITS: "the minimum number of units per arm",
    DURATION: "the minimum duration",
}
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is expected, and why.

    seconds, units: until a treatment that is better by the plan's smallest effect is promoted, and the units that meet
    an arm for it; None where that cannot be told. slowest: what takes longest, `evidence`, `units_per_arm`, `duration`
    or a guardrail's measure; "" where there is no estimate. phases: (share, seconds until it opens).
    new_units_a_day, rewarded_share, reward_deviation: what it stands on; None where it is not known.
    says, assumes: the same in words, a sentence or two each.
    """

    seconds: float | None
    units: int | None
    slowest: str
    phases: tuple[tuple[float, float], ...]
    new_units_a_day: float | None
    rewarded_share: float | None
    reward_deviation: float | None
    says: str
    assumes: str


def estimate_verdict(
    *, model: RegisteredModel, plan: ExperimentPlan, units_share: float = 1.0, agent: str | None = None
) -> Outlook:
    """Changes nothing. units_share: the part of the units that the experiment has to itself. agent: the slug of the one
    whose versions it compares; only its units will meet an arm. None: those of every agent of the model. Raises
    InvalidInput for a plan with faults, and for an agent of another model."""
    check_plan(plan)
    traffic = find_traffic(model, plan.guardrails, agent)
    if traffic is None:
        whom = "this model's versions have" if agent is None else f"the agent {agent} has"
        says = f"The time to a verdict is not known: {whom} made too few decisions lately."
        return Outlook(
            None, None, "", (), None, None, None, says, "It is estimated from the last 14 days of decisions."
        )
    traffic = replace(traffic, arrivals=traffic.arrivals.thin(units_share))
    # A phase's window is the model's, whoever takes part.
    window = find_window(model) if plan.attribution_window_seconds is None else plan.attribution_window_seconds
    known_share = _find_rewarded(find_curve(model, agent), window)
    rewarded = 1.0 if known_share is None else known_share
    low, high = find_range(model) if plan.rescaled else (0.0, 1.0)
    variance = traffic.variance or (high - low) ** 2 / 4
    told = {
        "new_units_a_day": traffic.arrivals.rate * DAY,
        "rewarded_share": known_share,
        "reward_deviation": math.sqrt(variance),
    }
    assumes = _write_assumptions(plan, traffic, known_share, math.sqrt(variance))
    if untold := _find_untold(plan, traffic, rewarded):
        return Outlook(None, None, untold[0], (), **told, says=untold[1], assumes=assumes)
    schedule = Schedule(
        shares=(plan.treatment_share, *plan.ramp),
        phase_units=plan.ramp_units,
        window_seconds=plan.exposure_window_seconds + window,
        min_units=plan.min_units_per_arm,
        min_seconds=plan.min_seconds,
        rewarded=1.0 if plan.missing == "zero" else rewarded,
    )
    hurdles = [_hurdle(plan, variance, high - low, schedule.rewarded), *_guardrails(plan, traffic, rewarded)]
    found = forecast_verdict(schedule, hurdles, traffic.arrivals)
    says = _write_forecast(found, plan)
    return Outlook(found.seconds, found.units, found.slowest, found.phases, **told, says=says, assumes=assumes)


def _find_rewarded(curve: SurvivalCurve | None, window: float) -> float | None:
    """The share of decisions whose first feedback arrives within the window; None where no feedback is known yet."""
    if curve is None or not curve.events:
        return None
    share = curve.happened_by(min(window, curve.last))
    return share.mean if share is not None else 0.0


def _hurdle(plan: ExperimentPlan, variance: float, width: float, rewarded: float) -> Hurdle:
    """The evidence of the reward, on the contrast that decides."""
    sharp = plan.conditioned and plan.rescaled
    return Hurdle(
        EVIDENCE,
        gain=min(plan.smallest_effect / width, 1.0),
        variance=variance / width**2 * (CONDITIONED_VARIANCE if plan.conditioned else 1.0),
        log_e=math.log(plan.promote_e),
        seen=rewarded,
        cap=SHARP_CAP if sharp else CAP,
    )


def _guardrails(plan: ExperimentPlan, traffic: Traffic, rewarded: float) -> list[Hurdle]:
    shares = {**traffic.bad, GuardrailMeasure.MISSING_FEEDBACK.value: 1.0 - rewarded}
    bound = math.log(plan.guardrail_e)
    return [
        Hurdle(one.measure, one.margin, shares[one.measure] * (1.0 - shares[one.measure]), bound)
        for one in plan.guardrails
    ]


def _find_untold(plan: ExperimentPlan, traffic: Traffic, rewarded: float) -> tuple[str, str] | None:
    """What stands against any estimate: its name, and the sentence that says so."""
    if rewarded == 0.0 and plan.missing == "exclude":
        return EVIDENCE, "No verdict is expected: no feedback has arrived within the attribution window so far."
    for one in plan.guardrails:
        if one.measure not in traffic.bad and one.measure != GuardrailMeasure.MISSING_FEEDBACK:
            name = GuardrailMeasure(one.measure).label
            return one.measure, f"No promotion is expected: the guardrail “{name}” has no data in recent decisions."
    return None


def _write_forecast(found: Forecast, plan: ExperimentPlan) -> str:
    if found.seconds is None or found.units is None:
        return f"No promotion is expected: {write_slowest(found.slowest)} would take more than 100 million units."
    slowest = write_slowest(found.slowest)
    return (
        f"A version that is {plan.smallest_effect:g} better is expected to be promoted after about "
        f"{duration(_round(found.seconds))} and {found.units:,} units. {slowest[0].upper()}{slowest[1:]} takes longest."
    )


def write_slowest(slowest: str) -> str:
    """What takes longest, in words."""
    return SLOWEST.get(slowest) or f"the guardrail “{GuardrailMeasure(slowest).label}”"


def _round(seconds: float) -> float:
    """As exact as an estimate is: whole days from ten on, hours from one on, minutes before."""
    step = DAY if seconds >= 10 * DAY else 3600.0 if seconds >= DAY else 60.0
    return max(step, round(seconds / step) * step) if seconds >= 60 else seconds


def _write_assumptions(plan: ExperimentPlan, traffic: Traffic, rewarded: float | None, deviation: float) -> str:
    spread = f"{deviation:.2f} around their mean" + (" (none is known yet)" if not traffic.variance else "")
    answered = "all of them (none is known yet)" if rewarded is None else f"{percent(rewarded)} of them"
    contrast = (
        f" Conditioned contrasts are assumed to vary {percent(CONDITIONED_VARIANCE)} as much as plain ones, as measured"
        " on the demo."
        if plan.conditioned
        else ""
    )
    return (
        f"Assumes {traffic.arrivals.rate * DAY:,.0f} new units a day as of late, feedback in time on {answered},"
        f" rewards that vary by {spread}, and a version no worse in any guardrail.{contrast}"
    )
