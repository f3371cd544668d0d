"""What an experiment has found, in the words of its page: a headline, and what a promotion still waits for.

Nothing is decided here; the rule is `statistics.promotion.decide`, and its own reasons are stored with the experiment.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from django.utils import timezone
from django.utils.text import capfirst

from models_registry.experiments.guardrails import list_guardrails
from models_registry.experiments.log import list_looks
from models_registry.experiments.variants import name_variants
from models_registry.models import Arm, Experiment, ExperimentState, GuardrailMeasure, Look, LookAction
from models_registry.statistics.intervals import DISPLAY_MIN_UNITS_PER_ARM
from models_registry.statistics.promotion import write_e
from workspaces.templatetags.show import duration, percent, signed


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a promotion. `share` in [0, 1] says how near it is; `says` what is lacking, or what is met."""

    title: str
    share: float
    says: str

    @property
    def met(self) -> bool:
        return self.share >= 1.0


OVERDUE = 1.5
"""An experiment without a shown difference is called off after so many times its expected length."""


@dataclass(frozen=True, slots=True)
class Headline:
    """One sentence that says what is known and what to do, with a tone ("ok", "bad", "warn", "info" or ""), and one
    more that explains it."""

    says: str
    because: str
    tone: str
    icon: str


def write_headline(experiment: Experiment, treatment: str, control: str) -> Headline:
    """What is known, and what to do, in one sentence; and why. The arms by their names (`variants.name_variants`)."""
    if experiment.state == ExperimentState.RUNNING:
        return _write_running(experiment, treatment, control)
    because = _write_verdict(experiment)
    if experiment.state == ExperimentState.PROMOTED:
        return Headline(
            f"{treatment} is better and was promoted: there is nothing left to do.", because, "ok", "circle-check"
        )
    if experiment.state == ExperimentState.ROLLED_BACK:
        says = f"{treatment} was rolled back and {control} serves all units: find out why before you try it again."
        return Headline(says, because, "bad", "rotate-ccw")
    if experiment.promoted_version is not None:
        says = f"{experiment.ended_by} promoted {experiment.promoted_version} by hand: nothing was shown to be better."
        return Headline(says, because, "", "circle-stop")
    if experiment.state == ExperimentState.FUTILE:
        says = (
            f"Undecided: {treatment} is not better by {experiment.smallest_effect:g} or more. It was given up, and "
            f"{control} serves all units."
        )
        return Headline(says, because, "", "circle-stop")
    if experiment.state == ExperimentState.SUPERSEDED:
        says = f"Another version was promoted first: {treatment} may be tried again, against that one."
        return Headline(says, because, "", "circle-stop")
    says = f"Stopped without a winner: {control} serves all units, and {treatment} may be tried again."
    return Headline(says, because, "", "circle-stop")


def write_group_headline(experiments: Sequence[Experiment]) -> Headline:
    """What is known of versions that are tried at the same time, and what to do, in one sentence; and why."""
    by_state = {state: [one for one in experiments if one.state == state] for state in ExperimentState}
    running = by_state[ExperimentState.RUNNING]
    because = ", ".join(
        f"{len(found)} {ExperimentState(state).label.lower()}" for state, found in by_state.items() if found
    )
    if won := by_state[ExperimentState.PROMOTED]:
        says = f"{_treatment(won[0])} is better and was promoted: there is nothing left to do."
        return Headline(says, because, "ok", "circle-check")
    if not running:
        return Headline("All of them are over, and none was promoted.", because, "", "circle-stop")
    if any(one.sample_ratio_mismatch for one in running):
        says = "Sample ratio mismatch in one of them: open it and find out which exposures are lost."
        return Headline(says, because, "bad", "triangle-alert")
    shown = [one for one in running if one.low is not None and one.low > 0]
    if shown:
        best = max(shown, key=lambda one: one.log_e_plus)
        says = f"{_treatment(best)} looks better than the champion: leave them running until one is promoted."
        return Headline(says, because, "ok", "trending-up")
    return Headline("No version is shown to be better yet: leave them running.", because, "info", "scale")


def _treatment(experiment: Experiment) -> str:
    return name_variants(experiment.variants.all())[Arm.TREATMENT]


def _write_running(experiment: Experiment, tried: str, champion: str) -> Headline:
    if experiment.sample_ratio_mismatch:
        return Headline(
            "Sample ratio mismatch: find out which exposures are lost, then stop and start again.",
            "The arms do not have their planned shares: the figures cannot be trusted, and no version is promoted.",
            "bad",
            "triangle-alert",
        )
    fewest = min(experiment.units_control, experiment.units_treatment)
    if fewest == 0:
        return Headline(
            "No outcomes are known yet: wait for the first units to mature.",
            "A unit counts after its exposure and attribution windows.",
            "",
            "hourglass",
        )
    if experiment.estimate is None or experiment.low is None or experiment.high is None:
        return Headline(
            f"It is too early to tell: wait until each arm has {DISPLAY_MIN_UNITS_PER_ARM} units with an outcome.",
            f"The smaller arm has {fewest:,}. The difference is shown from then on.",
            "",
            "hourglass",
        )
    if experiment.low > 0:
        return Headline(
            f"{tried} looks better than {champion}: leave it running until the requirements below are met.",
            f"The interval is above 0. E⁺ is {_evidence(experiment)} of the evidence that promotion needs.",
            "ok",
            "trending-up",
        )
    if experiment.high < 0:
        return Headline(
            f"{tried} looks worse than {champion}: stop it, or wait until it is rolled back.",
            "The interval is below 0. The version is rolled back when E⁻ reaches its bound.",
            "bad",
            "trending-down",
        )
    return Headline(
        f"No difference is shown yet: {_write_wait(experiment)}.",
        f"The interval contains 0. E⁺ is {_evidence(experiment)} of the evidence that promotion needs.",
        "info",
        "scale",
    )


def _write_verdict(experiment: Experiment) -> str:
    """The rule's own reason, and how the interval can contain 0 beside it."""
    because = capfirst(in_words(experiment.verdict))
    decided = next((name for name in ("E⁺", "E⁻") if name in because), None)
    low, high = experiment.low, experiment.high
    if decided is None or low is None or high is None or not low <= 0 <= high:
        return because
    return (
        f"{because}. {decided} alone decides. The interval can still contain 0, because it looks in both directions "
        "and is wide when there are few units."
    )


def _write_wait(experiment: Experiment) -> str:
    """What to do as long as nothing is shown, by how long it was expected to take."""
    expected = experiment.expected_seconds
    if expected is None or experiment.smallest_effect is None:
        return "leave it running"
    age = (timezone.now() - experiment.started_at).total_seconds()
    effect = f"{experiment.smallest_effect:g}"
    if age > OVERDUE * expected:
        return f"stop it, unless an effect smaller than {effect} is worth a longer wait"
    return f"leave it running, an effect of {effect} was expected to take {duration(expected)}"


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
    LookAction.GIVE_UP: "warn",
    LookAction.STOP: "warn",
    LookAction.PROMOTE_BY_HAND: "warn",
}
_FIGURES = re.compile(r"[\d.,^%−-]+")
_CODED = re.compile(rf"guardrail ({'|'.join(GuardrailMeasure.values)})\b")
LATEST_LOOKS = 10
"""How many looks at which nothing was done the page lists; the API has all."""


def list_entries(experiment: Experiment) -> list[LogEntry]:
    """Whatever was done, and the latest looks at which nothing was, newest first. Of these, what is not as it was at
    the look before."""
    looks = list_looks(experiment)
    done = list(looks.exclude(action=LookAction.CONTINUE))
    nothing = list(looks.filter(action=LookAction.CONTINUE)[: LATEST_LOOKS + 1])
    before = dict(pairwise(nothing))
    shown = sorted([*done, *nothing[:LATEST_LOOKS]], key=lambda one: one.id, reverse=True)
    return [_write_entry(look, experiment, before.get(look)) for look in shown]


def _write_entry(look: Look, experiment: Experiment, before: Look | None) -> LogEntry:
    title = look.get_action_display()
    if look.action == LookAction.PROMOTE_BY_HAND and experiment.promoted_version is not None:
        title = f"{experiment.promoted_version} promoted by hand"
    if look.by:
        title = f"{title} by {look.by}"
    reasons = [in_words(reason) for reason in look.reasons]
    if before is not None:
        reasons = _write_changes([in_words(reason) for reason in before.reasons], reasons)
    figures = f"phase {look.phase}, {percent(look.treatment_share)} treatment"
    if units := _units(look):
        more = f" ({units - _units(before):+,})" if before is not None else ""
        figures = f"{figures}, {units:,} units with an outcome{more}, {_write_evidence(look, before)}"
    if look.estimate is not None:
        figures = f"{figures}, difference {signed(look.estimate)} [{signed(look.low)}, {signed(look.high)}]"
    return LogEntry(look.at, title, figures, reasons, TONES.get(LookAction(look.action), ""))


def _units(look: Look) -> int:
    return look.units_control + look.units_treatment


def _write_evidence(look: Look, before: Look | None) -> str:
    """Both E, each with what it was."""
    written = []
    for name, field in (("E⁺", "log_e_plus"), ("E⁻", "log_e_minus")):
        now, then = write_e(getattr(look, field)), write_e(getattr(before or look, field))
        written.append(f"{name} {now}" if now == then else f"{name} {then} → {now}")
    return ", ".join(written)


def _write_changes(before: Sequence[str], now: Sequence[str]) -> list[str]:
    """Which requirements are met since, and which are not any more; figures alone are no change."""
    then, since = ({_FIGURES.sub("", reason): reason for reason in reasons} for reasons in (before, now))
    met = [f"met since the last look: {then[key]}" for key in then if key not in since]
    return [*met, *(f"new since the last look: {since[key]}" for key in since if key not in then)]


def in_words(reason: str) -> str:
    """A reason as earlier releases wrote it, with the names of its guardrails in place of their codes."""
    return _CODED.sub(lambda found: f"guardrail “{GuardrailMeasure(found[1]).label}”", reason)


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
