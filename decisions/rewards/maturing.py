"""Matured unit outcomes: from rewards to the observations that experiments consume.

A unit matures when its exposure window and its phase's attribution window have passed, by the server's clock. Its
outcome is the mean reward of its decisions in the exposure window, by the feedback recorded until it matured: later
feedback goes to training and rewrites nothing here. Its guardrail measures are shares of the same decisions.

Failed requests are counted over every decision of the experiment so far, matured or not: a treatment that cannot
answer is rolled back at the next look.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Exists, OuterRef
from django.utils import timezone

from decisions.models import Agent, Decision
from decisions.rewards.calculate import rewards_as_of
from decisions.rewards.specs import current_reward_spec
from models_registry.errors import NoExperiment
from models_registry.experiments import MaturedUnit, RequestCounts, consume_observations
from models_registry.guardrails import GuardrailPlan, read_guardrails
from models_registry.models import Arm, Experiment, ExperimentState, Exposure, GuardrailMeasure, Observation, Variant

BATCH = 5000


@dataclass(frozen=True, slots=True)
class Matured:
    """How many units of an experiment matured, and what the promotion rule said: promote, roll_back or continue."""

    experiment_id: uuid.UUID
    units: int
    action: str


@dataclass(frozen=True, slots=True)
class _Decided:
    """A decision of a unit's exposure window, as outcomes and guardrails need it."""

    id: uuid.UUID
    agent_id: uuid.UUID
    version_id: uuid.UUID | None
    latency_ms: float | None


def mature_outcomes(now: dt.datetime | None = None) -> list[Matured]:
    """For every running experiment: consume what has matured and act on the verdict."""
    moment = now or timezone.now()
    done = []
    for experiment in Experiment.objects.filter(state=ExperimentState.RUNNING).select_related("workspace"):
        try:
            done.append(_mature(experiment, moment))
        except NoExperiment:
            continue  # someone stopped it in between: nothing to consume
    return done


def _mature(experiment: Experiment, now: dt.datetime) -> Matured:
    window = dt.timedelta(seconds=experiment.exposure_window_seconds)
    # A unit counts in its first phase only: exposures of a later one are never observed, and must not fill the batch.
    observed = Observation.objects.filter(experiment=experiment, unit=OuterRef("unit"))
    exposures = list(
        Exposure.objects.filter(~Exists(observed), experiment=experiment)
        .select_related("phase")
        .order_by("exposed_at", "id")[:BATCH]
    )
    ripe = []
    for exposure in exposures:
        attribution = dt.timedelta(seconds=exposure.phase.attribution_window_seconds)
        matures_at = exposure.exposed_at + window + attribution
        if matures_at > now:
            break  # consumed in exposure order: a later one must not overtake
        ripe.append((exposure, matures_at))
    decided = _decisions_in_window(ripe, window)
    outcomes = _mean_rewards(ripe, decided)
    substitutes = _substitutes(experiment)
    guardrails = read_guardrails(experiment.guardrails)
    units = [
        MaturedUnit(
            exposure,
            outcomes.get(exposure.id),
            matures_at,
            _measure(guardrails, decided.get(exposure.id, []), substitutes.get(exposure.arm), exposure.id in outcomes),
        )
        for exposure, matures_at in ripe
    ]
    verdict = consume_observations(
        experiment=experiment, matured=units, requests=_count_requests(experiment, substitutes)
    )
    return Matured(experiment.id, len(units), verdict.action)


def _decisions_in_window(
    ripe: list[tuple[Exposure, dt.datetime]], window: dt.timedelta
) -> dict[uuid.UUID, list[_Decided]]:
    """The decisions of each exposure's window, by exposure, in one query."""
    if not ripe:
        return {}
    closes = {exposure.id: exposure.exposed_at + window for exposure, _ in ripe}
    rows = Decision.objects.filter(exposure__in=closes).values_list(
        "exposure_id", "recorded_at", "id", "agent_id", "model_version_id", "latency_ms"
    )
    decided: dict[uuid.UUID, list[_Decided]] = defaultdict(list)
    for exposure_id, recorded_at, *rest in rows:
        if recorded_at <= closes[exposure_id]:
            decided[exposure_id].append(_Decided(*rest))
    return decided


def _mean_rewards(
    ripe: list[tuple[Exposure, dt.datetime]], decided: dict[uuid.UUID, list[_Decided]]
) -> dict[uuid.UUID, float]:
    """Mean reward in [0, 1] by exposure; exposures without any rewarded decision are left out."""
    moments: dict[uuid.UUID, dict[uuid.UUID, dt.datetime]] = defaultdict(dict)
    unit_of: dict[uuid.UUID, uuid.UUID] = {}
    for exposure, matures_at in ripe:
        for decision in decided.get(exposure.id, []):
            moments[decision.agent_id][decision.id] = matures_at
            unit_of[decision.id] = exposure.id
    values: dict[uuid.UUID, list[float]] = defaultdict(list)
    for agent in Agent.objects.filter(id__in=moments):
        for decision_id, value in rewards_as_of(current_reward_spec(agent), moments[agent.id]).items():
            values[unit_of[decision_id]].append(value)
    return {exposure_id: sum(found) / len(found) for exposure_id, found in values.items()}


def _substitutes(experiment: Experiment) -> dict[str, uuid.UUID]:
    """By arm, the version that answers when the arm's own cannot: the other arm's."""
    version = dict(Variant.objects.filter(experiment=experiment).values_list("arm", "version_id"))
    other = {Arm.CONTROL.value: Arm.TREATMENT.value, Arm.TREATMENT.value: Arm.CONTROL.value}
    return {arm: version[other[arm]] for arm in version if other[arm] in version}


def _measure(
    guardrails: Sequence[GuardrailPlan], decided: Sequence[_Decided], substitute: uuid.UUID | None, rewarded: bool
) -> dict[str, float]:
    """The unit's guardrail measures in [0, 1], higher is worse; one that no decision tells is left out."""
    measures = {}
    for guardrail in guardrails:
        if guardrail.measure == GuardrailMeasure.ERROR_RATE:
            bad = [substitute is not None and decision.version_id == substitute for decision in decided]
        elif guardrail.measure == GuardrailMeasure.MISSING_FEEDBACK:
            bad = [not rewarded] if decided else []
        else:
            budget = guardrail.budget_ms
            assert budget is not None  # `check_plan` refuses latency without a budget
            bad = [decision.latency_ms > budget for decision in decided if decision.latency_ms is not None]
        if bad:
            measures[guardrail.measure] = sum(bad) / len(bad)
    return measures


def _count_requests(experiment: Experiment, substitutes: dict[str, uuid.UUID]) -> RequestCounts:
    """Every decision of the experiment by the arm assigned, and those that the other arm had to answer."""
    total: dict[str, int] = defaultdict(int)
    failed: dict[str, int] = defaultdict(int)
    groups = (
        Decision.objects.filter(exposure__experiment=experiment)
        .values_list("exposure__arm", "model_version_id")
        .annotate(decisions=Count("id"))
        .order_by("exposure__arm", "model_version_id")
    )
    for arm, version_id, decisions in groups:
        total[arm] += decisions
        if version_id is not None and version_id == substitutes.get(arm):
            failed[arm] += decisions
    return RequestCounts(
        control=total[Arm.CONTROL],
        failed_control=failed[Arm.CONTROL],
        treatment=total[Arm.TREATMENT],
        failed_treatment=failed[Arm.TREATMENT],
    )
