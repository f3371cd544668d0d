"""What an experiment has found, in the words of its page: a headline, and what a promotion still waits for.

Nothing is decided here; the rule is `statistics.promotion.decide`, and its own reasons are stored with the experiment.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass

from models_registry.experiment_log import list_looks
from models_registry.guardrails import list_guardrails
from models_registry.models import Experiment, ExperimentState, GuardrailMeasure, Look, LookAction, ModelVersion
from models_registry.statistics.intervals import DISPLAY_MIN_UNITS_PER_ARM
from models_registry.statistics.promotion import write_e
from workspaces.templatetags.show import percent, signed


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a promotion. `share` in [0, 1] says how near it is; `says` what is lacking, or what is met."""

    title: str
    share: float
    says: str

    @property
    def met(self) -> bool:
        return self.share >= 1.0


@dataclass(frozen=True, slots=True)
class Headline:
    """One sentence with a tone ("ok", "bad", "warn", "info" or ""), and one more that explains it."""

    says: str
    because: str
    tone: str
    icon: str


def write_headline(experiment: Experiment, treatment: ModelVersion, control: ModelVersion) -> Headline:
    """What came of it, or what it looks like so far."""
    tried, champion = str(treatment), str(control)
    if experiment.state == ExperimentState.PROMOTED:
        return Headline(f"{tried} is better and was promoted.", experiment.verdict, "ok", "circle-check")
    if experiment.state == ExperimentState.ROLLED_BACK:
        return Headline(
            f"{tried} was rolled back. {champion} serves all units.", experiment.verdict, "bad", "rotate-ccw"
        )
    if experiment.promoted_version is not None:
        says = f"{experiment.ended_by} promoted {experiment.promoted_version} by hand."
        return Headline(says, experiment.verdict, "", "circle-stop")
    if experiment.state == ExperimentState.STOPPED:
        return Headline("Stopped without a winner.", experiment.verdict, "", "circle-stop")
    if experiment.sample_ratio_mismatch:
        return Headline(
            "Sample ratio mismatch: no version is promoted.",
            "The arms do not have their planned shares. Check for lost exposures.",
            "bad",
            "triangle-alert",
        )
    fewest = min(experiment.units_control, experiment.units_treatment)
    if fewest == 0:
        return Headline(
            "Waiting for the first outcomes.",
            "A unit counts after its exposure and attribution windows.",
            "",
            "hourglass",
        )
    if experiment.estimate is None or experiment.low is None or experiment.high is None:
        return Headline(
            "Too early to tell.",
            f"The difference is shown once each arm has {DISPLAY_MIN_UNITS_PER_ARM} units with an outcome.",
            "",
            "hourglass",
        )
    if experiment.low > 0:
        return Headline(
            f"{tried} looks better than {champion}.",
            f"The interval is above 0. E⁺ is {_evidence(experiment)} of the evidence that promotion needs.",
            "ok",
            "trending-up",
        )
    if experiment.high < 0:
        return Headline(
            f"{tried} looks worse than {champion}.",
            "The interval is below 0. The version is rolled back when E⁻ reaches its bound.",
            "bad",
            "trending-down",
        )
    return Headline(
        f"Inconclusive: {_evidence(experiment)} of the evidence that promotion needs.",
        "The interval contains 0. It narrows with more units.",
        "info",
        "scale",
    )


def list_conditions(experiment: Experiment, now: dt.datetime) -> list[Condition]:
    """Every condition of a promotion in the order of the rule, met or not."""
    bound = math.log(experiment.promote_e)
    needs = [
        Condition(
            "Evidence that the treatment is better",
            _near(experiment.log_e_plus / bound),
            _write_e(experiment.log_e_plus, experiment.promote_e),
        )
    ]
    fewest = min(experiment.units_control, experiment.units_treatment)
    wanted = experiment.min_units_per_arm
    missing = wanted - fewest
    needs.append(
        Condition(
            f"At least {wanted:,} units per arm",
            _near(fewest / wanted),
            f"{missing:,} more needed in the smaller arm" if missing > 0 else f"{fewest:,} in the smaller arm",
        )
    )
    age = ((experiment.ended_at or now) - experiment.started_at).total_seconds()
    if experiment.min_seconds:
        left = experiment.min_seconds - age
        needs.append(
            Condition(
                "Minimum duration",
                _near(age / experiment.min_seconds),
                f"{_write_time(left)} more" if left > 0 else "reached",
            )
        )
    bound = math.log(experiment.guardrail_e)
    for plan, evidence, _ in list_guardrails(experiment):
        name = GuardrailMeasure(plan.measure).label
        log_e = evidence["log_e_non_inferior"]
        says = _write_e(log_e, experiment.guardrail_e) if evidence["units"] else write_no_data(plan.measure)
        needs.append(Condition(f"{name} not worse", _near(log_e / bound), says))
    if experiment.sample_ratio_mismatch:
        needs.append(Condition("Traffic split as planned", 0.0, "sample ratio mismatch"))
    return needs


def write_no_data(measure: str) -> str:
    """Why a guardrail cannot pass yet."""
    if measure == GuardrailMeasure.COST:
        return "no data: no decision of a matured unit has a cost. Give its backend prices"
    return "no data yet"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A row of the log as the page writes it. tone: "ok", "bad", "warn", "info" or ""."""

    at: dt.datetime
    title: str
    figures: str
    reasons: Sequence[str]
    tone: str = ""


TONES = {
    LookAction.START: "info",
    LookAction.PROMOTE: "ok",
    LookAction.ROLL_BACK: "bad",
    LookAction.STOP: "warn",
    LookAction.PROMOTE_BY_HAND: "warn",
}
LATEST_LOOKS = 10
"""How many looks at which nothing was done the page lists; the API has all."""


def list_entries(experiment: Experiment) -> list[LogEntry]:
    """Whatever was done, and the latest looks at which nothing was, newest first."""
    looks = list_looks(experiment)
    done = list(looks.exclude(action=LookAction.CONTINUE))
    nothing = list(looks.filter(action=LookAction.CONTINUE)[:LATEST_LOOKS])
    return [_write_entry(look, experiment) for look in sorted([*done, *nothing], key=lambda one: one.id, reverse=True)]


def _write_entry(look: Look, experiment: Experiment) -> LogEntry:
    title = look.get_action_display()
    if look.action == LookAction.PROMOTE_BY_HAND and experiment.promoted_version is not None:
        title = f"{experiment.promoted_version} promoted by hand"
    if look.by:
        title = f"{title} by {look.by}"
    units = look.units_control + look.units_treatment
    figures = f"phase {look.phase}, {percent(look.treatment_share)} treatment"
    if units:
        evidence = f"E⁺ {write_e(look.log_e_plus)}, E⁻ {write_e(look.log_e_minus)}"
        figures = f"{figures}, {units:,} units with an outcome, {evidence}"
    if look.estimate is not None:
        figures = f"{figures}, difference {signed(look.estimate)} [{signed(look.low)}, {signed(look.high)}]"
    return LogEntry(look.at, title, figures, look.reasons, TONES.get(LookAction(look.action), ""))


def _evidence(experiment: Experiment) -> str:
    """How near E⁺ is to its bound, both as logarithms, as the bar on the page is drawn."""
    return percent(_near(experiment.log_e_plus / math.log(experiment.promote_e)))


def _near(share: float) -> float:
    return min(1.0, max(0.0, share))


def _write_e(log_e: float, bound: float) -> str:
    return f"E {write_e(log_e)} of {bound:g}"


def _write_time(seconds: float) -> str:
    for name, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            amount = math.ceil(seconds / size)
            return f"{amount} {name}{'s' if amount != 1 else ''}"
    return f"{math.ceil(seconds)} seconds"
