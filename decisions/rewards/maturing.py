"""Turns rewards of matured units into the observations that experiments use.

A unit matures when its exposure window and its phase's attribution window have passed, by the server's clock. Its
outcome is the mean reward of its decisions in the exposure window, from the feedback recorded until then; later
feedback is for training only. Its guardrail measures are shares of the same decisions.

Where the experiment conditions its contrast, the probabilities with which either arm would have taken the unit's
actions are multiplied here too (`_log_likelihoods`).

Failed requests are counted over the whole experiment so far, matured or not: a treatment that cannot answer is rolled
back at the next look.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django.db import connection
from django.db.models import Count, Q

from decisions.models import Agent, Decision
from decisions.rewards.calculate import values_as_of
from decisions.rewards.exploring import Decided, explore_units
from decisions.rewards.specs import current_reward_spec
from decisions.rewards.valuing import Valued
from models_registry.errors import NoExperiment
from models_registry.experiments.guardrails import GuardrailPlan, read_guardrails
from models_registry.experiments.looks import (
    MaturedUnit,
    RequestCounts,
    consume_observations,
    read_counted,
    settle_exposures,
)
from models_registry.models import (
    Arm,
    Call,
    Experiment,
    ExperimentState,
    Exposure,
    FailedRequest,
    GuardrailMeasure,
    Observation,
    Variant,
)
from workspaces.storage.clock import database_now

BATCH = 5000
RECORDED_WITHIN = dt.timedelta(minutes=15)
"""A request stands in the ledger this long after its moment: then it can be counted for good."""
# A probability of 0, which only the other arm can have given, has no logarithm: this is as good as never.
_LOG_LIKELIHOODS = """
SELECT e.id, e.arm, sum(ln(d.propensity)), sum(ln(greatest(d.other_arm_propensity, 1e-300)))
  FROM unnest(%(exposures)s::uuid[], %(moments)s::timestamptz[]) AS ripe(id, matures_at)
  JOIN models_registry_exposure e ON e.id = ripe.id
  JOIN decisions_decision d ON d.exposure_id = e.id AND d.recorded_at <= ripe.matures_at
 WHERE NOT EXISTS (SELECT 1 FROM models_registry_failedrequest f
                    WHERE f.exposure_id = e.id AND f.failed_at <= ripe.matures_at)
 GROUP BY e.id, e.arm
HAVING count(*) = count(d.other_arm_propensity) AND count(*) = count(d.propensity)
"""


@dataclass(frozen=True, slots=True)
class Matured:
    """How many units of an experiment matured, and what the promotion rule said: promote, roll_back or continue."""

    experiment_id: uuid.UUID
    units: int
    action: str


@dataclass(frozen=True, slots=True)
class _Assigned:
    """What an arm's units should get: the version, and of an experiment on versions of an agent that one, too."""

    version_id: uuid.UUID | None = None
    agent_version_id: uuid.UUID | None = None

    def failed(self, version_id: uuid.UUID | None, agent_version_id: uuid.UUID | None) -> bool:
        """Whether a decision was made in the arm's place, since the arm could not answer."""
        other_agent_version = self.agent_version_id is not None and agent_version_id != self.agent_version_id
        return version_id is not None and (version_id != self.version_id or other_agent_version)


@dataclass(frozen=True, slots=True)
class _Unit:
    """What guardrails measure: a unit's decisions, its requests that nobody answered, and what its arm was assigned."""

    decided: Sequence[Decided]
    failures: int
    own: _Assigned


def mature_outcomes(
    now: dt.datetime | None = None, *, before_each: Callable[[], object] = lambda: None
) -> list[Matured]:
    """For every running experiment: consume what has matured and act on the verdict. `before_each` hears of each."""
    moment = now or database_now()
    done = []
    for experiment in Experiment.objects.filter(state=ExperimentState.RUNNING).select_related("workspace"):
        before_each()
        try:
            done.append(_mature(experiment, moment))
        except NoExperiment:
            continue  # someone stopped it in between: nothing to consume
    return done


def _mature(experiment: Experiment, now: dt.datetime) -> Matured:
    window = dt.timedelta(seconds=experiment.exposure_window_seconds)
    ripe = _find_ripe(experiment, now, window)
    guardrails = read_guardrails(experiment.guardrails)
    judged = any(one.measure == GuardrailMeasure.INVALID_ANSWERS for one in guardrails)
    decided = _decisions_in_window(ripe, window, judged=judged)
    valued = _values(ripe, decided)
    outcomes = _mean_rewards(decided, valued)
    secondary, slices = explore_units(experiment, decided, valued)
    failures = _failures_in_window(ripe, window)
    log_l = _log_likelihoods(ripe) if experiment.conditioned else {}
    assigned = _find_assigned(experiment)
    units = [
        MaturedUnit(
            exposure,
            outcomes.get(exposure.id),
            matures_at,
            _measure(
                guardrails,
                _Unit(decided.get(exposure.id, []), failures[exposure.id], assigned[exposure.arm]),
                rewarded=exposure.id in outcomes,
            ),
            log_l.get(exposure.id),
            secondary.get(exposure.id, {}),
            slices.get(exposure.id, {}),
        )
        for exposure, matures_at in ripe
    ]
    requests, counted = _count_requests(experiment, assigned, now)
    verdict = consume_observations(experiment=experiment, matured=units, requests=requests, counted=counted)
    return Matured(experiment.id, len(units), verdict.action)


def _find_ripe(experiment: Experiment, now: dt.datetime, window: dt.timedelta) -> list[tuple[Exposure, dt.datetime]]:
    """At most `BATCH` exposures that have matured, and when, in order. Those of units that an earlier phase observed
    are settled on the way: a unit counts in its first phase only, and must not keep others waiting."""
    while True:
        ripe = _read_ripe(experiment, now, window)
        units = [exposure.unit for exposure, _ in ripe]
        observed = set(Observation.objects.filter(experiment=experiment, unit__in=units).values_list("unit", flat=True))
        if not observed:
            return ripe
        settle_exposures([exposure for exposure, _ in ripe if exposure.unit in observed])
        if fresh := [(exposure, at) for exposure, at in ripe if exposure.unit not in observed]:
            return fresh


def _read_ripe(experiment: Experiment, now: dt.datetime, window: dt.timedelta) -> list[tuple[Exposure, dt.datetime]]:
    phases = {phase.id: phase for phase in experiment.phases.all()}
    waits = {key: window + dt.timedelta(seconds=one.attribution_window_seconds) for key, one in phases.items()}
    ripe = []
    pending = Exposure.objects.filter(experiment=experiment, settled=False, exposed_at__lte=now - min(waits.values()))
    for exposure in pending.order_by("exposed_at", "id")[:BATCH]:
        matures_at = exposure.exposed_at + waits[exposure.phase_id]
        if matures_at > now:
            break  # consumed in exposure order: a later one must not overtake
        exposure.phase = phases[exposure.phase_id]
        ripe.append((exposure, matures_at))
    return ripe


def _decisions_in_window(
    ripe: list[tuple[Exposure, dt.datetime]], window: dt.timedelta, *, judged: bool
) -> dict[uuid.UUID, list[Decided]]:
    """The decisions of each exposure's window, by exposure, in one query. judged: whether their answers' validity is
    asked for, by one more."""
    if not ripe:
        return {}
    closes = {exposure.id: exposure.exposed_at + window for exposure, _ in ripe}
    rows = Decision.objects.filter(exposure__in=closes).values_list(
        *("exposure_id", "recorded_at", "id", "agent_id", "model_version_id", "agent_version_id"),
        *("latency_ms", "cost", "confidence", "tokens_in", "tokens_out"),
        named=True,
    )
    inside = [row for row in rows if row.recorded_at <= closes[row.exposure_id]]
    calls = Call.objects.filter(id__in=[row.id for row in inside]) if judged else Call.objects.none()
    unusable = dict(calls.values_list("id", "unusable_answers"))
    decided: dict[uuid.UUID, list[Decided]] = defaultdict(list)
    for row in inside:
        known = [tokens for tokens in (row.tokens_in, row.tokens_out) if tokens is not None]
        decided[row.exposure_id].append(
            Decided(
                id=row.id,
                agent_id=row.agent_id,
                version_id=row.model_version_id,
                agent_version_id=row.agent_version_id,
                latency_ms=row.latency_ms,
                cost=None if row.cost is None else float(row.cost),
                valid=unusable[row.id] == 0 if row.id in unusable else None,
                recorded_at=row.recorded_at,
                confidence=row.confidence,
                tokens=sum(known) if known else None,
            )
        )
    return decided


def _values(
    ripe: list[tuple[Exposure, dt.datetime]], decided: Mapping[uuid.UUID, Sequence[Decided]]
) -> dict[uuid.UUID, Valued]:
    """What each decision was worth when its unit matured."""
    moments: dict[uuid.UUID, dict[uuid.UUID, dt.datetime]] = defaultdict(dict)
    for exposure, matures_at in ripe:
        for decision in decided.get(exposure.id, []):
            moments[decision.agent_id][decision.id] = matures_at
    valued: dict[uuid.UUID, Valued] = {}
    for agent in Agent.objects.filter(id__in=moments):
        valued |= values_as_of(current_reward_spec(agent), moments[agent.id])
    return valued


def _mean_rewards(
    decided: Mapping[uuid.UUID, Sequence[Decided]], valued: Mapping[uuid.UUID, Valued]
) -> dict[uuid.UUID, float]:
    """Mean reward in [0, 1] by exposure; exposures without any rewarded decision are left out."""
    means = {}
    for exposure_id, decisions in decided.items():
        found = [valued[one.id].value for one in decisions if one.id in valued]
        rewards = [value for value in found if value is not None]
        if rewards:
            means[exposure_id] = sum(rewards) / len(rewards)
    return means


def _find_assigned(experiment: Experiment) -> Mapping[str, _Assigned]:
    """By arm; an arm without a variant is assigned nothing."""
    rows = Variant.objects.filter(experiment=experiment).values_list("arm", "version_id", "arm_setup__agent_version_id")
    return defaultdict(_Assigned, {arm: _Assigned(version, setup) for arm, version, setup in rows})


def _failures_in_window(ripe: list[tuple[Exposure, dt.datetime]], window: dt.timedelta) -> Counter[uuid.UUID]:
    """Requests of each exposure's window that nobody could answer."""
    closes = {exposure.id: exposure.exposed_at + window for exposure, _ in ripe}
    rows = FailedRequest.objects.filter(exposure__in=closes).values_list("exposure_id", "failed_at")
    return Counter(exposure_id for exposure_id, failed_at in rows if failed_at <= closes[exposure_id])


def _log_likelihoods(ripe: list[tuple[Exposure, dt.datetime]]) -> dict[uuid.UUID, tuple[float, float]]:
    """log L0 and log L1 by exposure, control first, in one query. Exposures that miss a probability are left out, and
    those with a request that failed: by it the arm may have reached the outcome otherwise than by its actions.

    Over every decision until the unit matured and not only those of its window: what came later may have touched the
    feedback on what came before, and conditioning on more than is needed is never wrong.
    """
    matures = {exposure.id: matures_at for exposure, matures_at in ripe}
    with connection.cursor() as cursor:
        cursor.execute(_LOG_LIKELIHOODS, {"exposures": list(matures), "moments": list(matures.values())})
        found = cursor.fetchall()
    # `other` is of the arm that was not assigned: the treatment's in the control.
    return {row[0]: (row[2], row[3]) if row[1] == Arm.CONTROL else (row[3], row[2]) for row in found}


def _measure(guardrails: Sequence[GuardrailPlan], unit: _Unit, *, rewarded: bool) -> dict[str, float]:
    """The unit's guardrail measures in [0, 1], higher is worse; one that no request tells is left out."""
    measures = {}
    for guardrail in guardrails:
        if guardrail.measure == GuardrailMeasure.ERROR_RATE:
            fell_back = [unit.own.failed(one.version_id, one.agent_version_id) for one in unit.decided]
            bad = [*fell_back, *[True] * unit.failures]
        elif guardrail.measure == GuardrailMeasure.MISSING_FEEDBACK:
            bad = [not rewarded] if unit.decided or unit.failures else []
        elif guardrail.measure == GuardrailMeasure.INVALID_ANSWERS:
            bad = [not one.valid for one in unit.decided if one.valid is not None]
        elif guardrail.measure == GuardrailMeasure.COST:
            assert guardrail.budget_cost is not None  # `check_plan` refuses cost without a budget
            bad = [one.cost > guardrail.budget_cost for one in unit.decided if one.cost is not None]
        else:
            assert guardrail.budget_ms is not None  # nor latency without one
            bad = [one.latency_ms > guardrail.budget_ms for one in unit.decided if one.latency_ms is not None]
        if bad:
            measures[guardrail.measure] = sum(bad) / len(bad)
    return measures


def _count_requests(
    experiment: Experiment, assigned: Mapping[str, _Assigned], now: dt.datetime
) -> tuple[RequestCounts, RequestCounts]:
    """Every request of the experiment by the arm assigned; those failed that something else, or nobody, answered. And
    the part of them that need not be counted again: only what was recorded since is read."""
    before = read_counted(experiment)
    until = min(now, database_now()) - RECORDED_WITHIN
    if before.until is not None and until <= before.until:
        until = before.until
    counted = before + _requests_between(experiment, assigned, before.until, until)
    return counted + _requests_between(experiment, assigned, until, None), counted


def _requests_between(
    experiment: Experiment, assigned: Mapping[str, _Assigned], after: dt.datetime | None, until: dt.datetime | None
) -> RequestCounts:
    """Recorded after one moment and until the other; None is no bound."""
    total: dict[str, int] = defaultdict(int)
    failed: dict[str, int] = defaultdict(int)
    groups = (
        Decision.objects.filter(_between("recorded_at", after, until), exposure__experiment=experiment)
        .values_list("exposure__arm", "model_version_id", "agent_version_id")
        .annotate(decisions=Count("id"))
        .order_by("exposure__arm", "model_version_id", "agent_version_id")
    )
    for arm, version_id, agent_version_id, decisions in groups:
        total[arm] += decisions
        if assigned[arm].failed(version_id, agent_version_id):
            failed[arm] += decisions
    unanswered = FailedRequest.objects.filter(
        _between("failed_at", after, until), exposure__experiment=experiment
    ).values_list("exposure__arm")
    for arm, requests in unanswered.annotate(requests=Count("id")).order_by("exposure__arm"):
        total[arm] += requests
        failed[arm] += requests
    return RequestCounts(
        control=total[Arm.CONTROL],
        failed_control=failed[Arm.CONTROL],
        treatment=total[Arm.TREATMENT],
        failed_treatment=failed[Arm.TREATMENT],
        until=until,
    )


def _between(field: str, after: dt.datetime | None, until: dt.datetime | None) -> Q:
    bounds = {f"{field}__gt": after, f"{field}__lte": until}
    return Q(**{name: moment for name, moment in bounds.items() if moment is not None})
