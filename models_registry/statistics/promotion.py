"""The promotion rule: what the evidence of an experiment allows, as one pure function.

The experiments' evaluation job calls `decide` after each update of the e-process and acts on the verdict.
"""

import math
from dataclasses import dataclass
from typing import Literal

Action = Literal["promote", "roll_back", "give_up", "continue"]

WEEK_SECONDS = 7 * 86_400


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one experiment; each is a field of the experiment, so that a demonstration can run in minutes.

    promote_e: E⁺ needed to promote; P(ever promoted | not better) <= 1 / promote_e.
    rollback_e: E⁻ of the primary measure at which harm is taken as shown; k guardrails each need k times as much.
    guardrail_e: e-value needed of each guardrail's non-inferiority test before a promotion.
    min_units_per_arm: units with an outcome in each arm before a promotion.
    min_seconds: age of the experiment before a promotion, a week by default (one cycle of weekdays).
    max_excess_failures: excess share of failed (5xx) requests in the treatment that ends the experiment at once.
    min_requests_for_failures: requests per arm before that share is looked at.
    futility_e: E of futility at which the experiment is given up; None for never. P(ever given up | better by the
        smallest effect that is worth finding, or more) <= 1 / futility_e.
    """

    promote_e: float = 40.0
    rollback_e: float = 20.0
    guardrail_e: float = 20.0
    min_units_per_arm: int = 500
    min_seconds: float = WEEK_SECONDS
    max_excess_failures: float = 0.05
    min_requests_for_failures: int = 100
    futility_e: float | None = None

    def __post_init__(self) -> None:
        given_up = math.inf if self.futility_e is None else self.futility_e
        if min(self.promote_e, self.rollback_e, self.guardrail_e, given_up) <= 1.0:
            raise ValueError("every e-value bound must exceed 1: 1 is what no evidence gives")
        if self.min_units_per_arm < 1 or self.min_seconds < 0.0 or self.min_requests_for_failures < 1:
            raise ValueError("minimum counts must be at least 1 and the minimum age not negative")
        if not 0.0 < self.max_excess_failures <= 1.0:
            raise ValueError("max_excess_failures must lie in (0, 1]")


@dataclass(frozen=True, slots=True)
class Guardrail:
    """A measure that must not get worse: log e-values that it is non-inferior, and that it is harmed, of `units` units
    on which it is known. `name` is written into reasons."""

    name: str
    log_e_non_inferior: float
    log_e_harm: float
    units: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an experiment has shown so far.

    log_e_plus, log_e_minus: current values of `e_process.run_e_process` over the matured units.
    log_e_futile: the same of `futility.run_futility`.
    matured_control, matured_treatment: units whose observation has been consumed and has an outcome.
    age_seconds: since the experiment started, by the database's clock.
    failed_*, requests_*: 5xx answers and requests per arm since the start.
    """

    log_e_plus: float
    log_e_minus: float
    matured_control: int
    matured_treatment: int
    age_seconds: float
    guardrails: tuple[Guardrail, ...] = ()
    sample_ratio_mismatch: bool = False
    requests_control: int = 0
    failed_control: int = 0
    requests_treatment: int = 0
    failed_treatment: int = 0
    heartbeat_lost: bool = False
    log_e_futile: float = 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The action, and every reason for it: what was shown, or what is still lacking."""

    action: Action
    reasons: list[str]


def decide(evidence: Evidence, bounds: Bounds) -> Verdict:
    """Roll back on any harm, else promote when nothing is lacking, else give up what is futile, else continue.

    Harm wins over benefit, and needs neither age nor minimum counts: leaving is always safe. A sample-ratio
    mismatch forbids promotion and giving up: its figures say nothing. A nan e-value counts as no evidence.
    An experiment is given up only with the age and units of a promotion, so that it has met the same (a week's days),
    and only while nothing speaks for a difference (E⁺ and E⁻ <= 1): a treatment that is a little better may still be
    promoted, and a worse one is rolled back.
    """
    harms = _find_harms(evidence, bounds)
    if harms:
        return Verdict("roll_back", harms)
    lacking = _find_lacking(evidence, bounds)
    if lacking and _is_futile(evidence, bounds):
        shown = f"E of futility {write_e(evidence.log_e_futile)} has reached {bounds.futility_e:g}"
        return Verdict("give_up", [f"not better by the smallest effect that is worth finding: {shown}"])
    if lacking:
        return Verdict("continue", lacking)
    return Verdict("promote", [f"E⁺ {write_e(evidence.log_e_plus)} has reached {bounds.promote_e:g}"])


def _is_futile(evidence: Evidence, bounds: Bounds) -> bool:
    return (
        bounds.futility_e is not None
        and evidence.log_e_futile >= math.log(bounds.futility_e)
        and max(evidence.log_e_plus, evidence.log_e_minus) <= 0.0
        and min(evidence.matured_control, evidence.matured_treatment) >= bounds.min_units_per_arm
        and evidence.age_seconds >= bounds.min_seconds
        and not evidence.sample_ratio_mismatch
    )


def _find_harms(evidence: Evidence, bounds: Bounds) -> list[str]:
    harms = []
    if evidence.heartbeat_lost:
        harms.append("the treatment's heartbeat is lost")
    if min(evidence.requests_control, evidence.requests_treatment) >= bounds.min_requests_for_failures:
        excess = (
            evidence.failed_treatment / evidence.requests_treatment
            - evidence.failed_control / evidence.requests_control
        )
        if excess >= bounds.max_excess_failures:
            harms.append(f"{100 * excess:.1f} points more failed requests than control")
    if evidence.log_e_minus >= math.log(bounds.rollback_e):
        harms.append(f"harm shown: E⁻ {write_e(evidence.log_e_minus)} has reached {bounds.rollback_e:g}")
    # k chances to err, so each guardrail needs k times the evidence (Bonferroni).
    guardrail_bound = bounds.rollback_e * len(evidence.guardrails)
    harms += [
        f"guardrail “{guardrail.name}” harmed: E {write_e(guardrail.log_e_harm)} has reached {guardrail_bound:g}"
        for guardrail in evidence.guardrails
        if guardrail.log_e_harm >= math.log(guardrail_bound)
    ]
    return harms


def _find_lacking(evidence: Evidence, bounds: Bounds) -> list[str]:
    lacking = []
    if not evidence.log_e_plus >= math.log(bounds.promote_e):
        lacking.append(f"E⁺ {write_e(evidence.log_e_plus)} of {bounds.promote_e:g}")
    if evidence.sample_ratio_mismatch:
        lacking.append("sample-ratio mismatch: the arms' sizes contradict the assignment probabilities")
    for arm, matured in (("control", evidence.matured_control), ("treatment", evidence.matured_treatment)):
        if matured < bounds.min_units_per_arm:
            lacking.append(f"{matured} of {bounds.min_units_per_arm} units with an outcome in {arm}")
    if evidence.age_seconds < bounds.min_seconds:
        lacking.append(f"{_write_age(evidence.age_seconds, bounds.min_seconds)} of age")
    # Without data E is 1, below every bound: what was not measured is not taken for sound.
    lacking += [
        f"guardrail “{guardrail.name}” not shown to be no worse: E {write_e(guardrail.log_e_non_inferior)}"
        f" of {bounds.guardrail_e:g}"
        if guardrail.units
        else f"guardrail “{guardrail.name}” has no data yet"
        for guardrail in evidence.guardrails
        if not guardrail.log_e_non_inferior >= math.log(bounds.guardrail_e)
    ]
    return lacking


def _write_age(age: float, bound: float) -> str:
    """Both in the largest unit of which the bound has two."""
    for name, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if bound >= 2 * size:
            return f"{math.floor(10 * age / size) / 10:g} of {bound / size:.3g} {name}"
    return f"{math.floor(age)} of {bound:.3g} seconds"


SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def write_e(log_e: float) -> str:
    """An e-value from its logarithm as pages, verdicts and tables write it: three significant digits below 1,000, whole
    from there, 4.6 × 10⁷ from a million on."""
    if abs(log_e) >= math.log(1e6):
        exponent = math.floor(log_e / math.log(10))
        mantissa = f"{10 ** (log_e / math.log(10) - exponent):.1f}"
        if mantissa == "10.0":
            mantissa, exponent = "1.0", exponent + 1
        return f"{mantissa} × 10{str(exponent).translate(SUPERSCRIPT)}"
    value = math.exp(log_e)
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
