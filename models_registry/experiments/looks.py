"""A look at an experiment: takes what has matured since the last one, and acts on what the rule says.

`decisions.rewards.maturing` hands matured units to `consume_observations`. A look reads the fresh units only: the
experiment keeps what its tests know of the others (`evidence.Comparison`), phases count the units that they observed,
and what has not matured yet is found by an index.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Exists, Max, OuterRef

from models_registry.experiments.evidence import (
    UNIT_COLUMNS,
    Comparison,
    ObservedUnit,
    find_intervals,
    go_on,
    read_comparison,
    store_comparison,
)
from models_registry.experiments.guardrails import as_evidence, summarise_guardrails
from models_registry.experiments.holdouts import hold_out_control
from models_registry.experiments.locking import lock_running
from models_registry.experiments.log import is_look_due, record_look
from models_registry.experiments.phases import follow_ramp
from models_registry.experiments.promotion import end_experiment, promote_treatment
from models_registry.models import Arm, Experiment, Exposure, LookAction, Observation, Phase
from models_registry.statistics.promotion import Bounds, Evidence, Verdict, decide
from models_registry.statistics.sample_ratio import PhaseCount, check_sample_ratio
from workspaces.access.actors import system
from workspaces.storage.clock import database_now

REBUILT_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class MaturedUnit:
    """A unit whose windows have passed, with its mean reward in [0, 1] or None where nothing came back.

    `guardrails`: its measures by name, in [0, 1], higher is worse; those that are not known are left out.
    `log_l`: log L0 and log L1 of its actions (`statistics.e_process.compute_posteriors`), None where one is not known.
    `secondary`, `slices`: measures by name, and values of its first state by field, which decide nothing (`exploring`);
    only their sums are kept.
    """

    exposure: Exposure
    outcome: float | None
    matured_at: dt.datetime
    guardrails: Mapping[str, float] = field(default_factory=dict)
    log_l: tuple[float, float] | None = None
    secondary: Mapping[str, float] = field(default_factory=dict)
    slices: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Requests of an experiment's units since its start, by the arm assigned, and those that it could not serve.

    `until`: the moment up to which nothing more can be recorded, where these are counted for good.
    """

    control: int = 0
    failed_control: int = 0
    treatment: int = 0
    failed_treatment: int = 0
    until: dt.datetime | None = None

    def __add__(self, other: RequestCounts) -> RequestCounts:
        """The sum, up to the moment of `other`."""
        return RequestCounts(
            self.control + other.control,
            self.failed_control + other.failed_control,
            self.treatment + other.treatment,
            self.failed_treatment + other.failed_treatment,
            other.until,
        )


def read_counted(experiment: Experiment) -> RequestCounts:
    """The requests that an earlier look counted for good; none, with `until` None, before the first."""
    stored = dict(experiment.counted_requests)
    until = stored.pop("until", None)
    return RequestCounts(**stored, until=dt.datetime.fromisoformat(until) if until else None)


@transaction.atomic
def consume_observations(
    *,
    experiment: Experiment,
    matured: Sequence[MaturedUnit],
    requests: RequestCounts | None = None,
    counted: RequestCounts | None = None,
) -> Verdict:
    """Consumes matured units in exposure order, each once, calculates the evidence of them, and acts on the verdict.

    `requests` is looked at whether or not a unit has matured; None leaves the last known counts. `counted`, with its
    `until`, is the part of them that the next look need not count. Units that were consumed before are skipped, so a
    repeated call changes nothing. Raises NoExperiment.
    """
    locked = lock_running(experiment)
    comparison = _find_comparison(locked)
    fresh = _list_fresh(locked, matured)
    _calculate_evidence(locked, comparison, fresh, {one.exposure.id: one for one in matured})
    Observation.objects.bulk_create(fresh, batch_size=1000)
    _settle(matured, fresh)
    if requests is not None:
        locked.requests_control, locked.failed_control = requests.control, requests.failed_control
        locked.requests_treatment, locked.failed_treatment = requests.treatment, requests.failed_treatment
    if counted is not None and counted.until is not None:
        locked.counted_requests = {
            "control": counted.control,
            "failed_control": counted.failed_control,
            "treatment": counted.treatment,
            "failed_treatment": counted.failed_treatment,
            "until": counted.until.isoformat(),
        }
    locked.sample_ratio_mismatch = check_sample_ratio(count_exposures(locked)).mismatch
    verdict = read_verdict(locked)
    locked.verdict = "; ".join(verdict.reasons)[:500]
    locked.save()
    _act(locked, verdict)
    return verdict


def _act(experiment: Experiment, verdict: Verdict) -> None:
    """What the verdict wants, and its row in the log."""
    by, action = system(experiment.workspace), LookAction(verdict.action)
    if action == LookAction.PROMOTE:
        promote_treatment(by=by, experiment=experiment, reason="; ".join(verdict.reasons))
        hold_out_control(by=by, experiment=experiment)
    if action != LookAction.CONTINUE:
        end_experiment(by=by, experiment=experiment, action=action, reasons=verdict.reasons)
    elif follow_ramp(by=by, experiment=experiment) is None and is_look_due(experiment):
        record_look(by=by, experiment=experiment, action=action, reasons=verdict.reasons)


def _find_comparison(experiment: Experiment) -> Comparison:
    """What the last look left; of an experiment whose looks left nothing yet, all its observations are read once."""
    if experiment.running:
        return read_comparison(experiment)
    comparison = Comparison()
    earlier = Observation.objects.filter(experiment=experiment).order_by("position").values_list(*UNIT_COLUMNS)
    rows = earlier.iterator(chunk_size=REBUILT_AT_ONCE)
    while units := [ObservedUnit(*row) for row in islice(rows, REBUILT_AT_ONCE)]:
        comparison = go_on(experiment, comparison, units).comparison
    return comparison


def _list_fresh(experiment: Experiment, matured: Sequence[MaturedUnit]) -> list[Observation]:
    """The observations that these units add, in exposure order; a unit counts in its first phase only."""
    mine = Observation.objects.filter(experiment=experiment)
    seen = set(mine.filter(unit__in=[m.exposure.unit for m in matured]).values_list("unit", flat=True))
    position = mine.aggregate(last=Max("position"))["last"] or 0
    fresh: list[Observation] = []
    for unit in sorted(matured, key=lambda m: (m.exposure.exposed_at, m.exposure.id)):
        if unit.exposure.unit in seen:
            continue
        seen.add(unit.exposure.unit)
        position += 1
        outcome = 0.0 if unit.outcome is None and experiment.missing == "zero" else unit.outcome
        fresh.append(
            Observation(
                workspace_id=experiment.workspace_id,
                experiment=experiment,
                exposure=unit.exposure,
                unit=unit.exposure.unit,
                position=position,
                outcome=outcome,
                guardrails=dict(unit.guardrails),
                log_l_control=unit.log_l[0] if unit.log_l else None,
                log_l_treatment=unit.log_l[1] if unit.log_l else None,
                matured_at=unit.matured_at,
            )
        )
    return fresh


def _calculate_evidence(
    experiment: Experiment, comparison: Comparison, fresh: Sequence[Observation], matured: Mapping[UUID, MaturedUnit]
) -> None:
    """Takes the tests on over `fresh`, and puts what they say on the observations and on the experiment."""
    units = [
        ObservedUnit(
            o.outcome,
            o.exposure.arm,
            o.exposure.phase.treatment_share,
            o.log_l_control,
            o.log_l_treatment,
            o.guardrails,
            matured[o.exposure_id].secondary,
            matured[o.exposure_id].slices,
        )
        for o in fresh
    ]
    step = go_on(experiment, comparison, units)
    counted = (observation for observation in fresh if observation.outcome is not None)
    for observation, plus, minus in zip(counted, step.log_e_plus, step.log_e_minus, strict=True):
        observation.log_e_plus, observation.log_e_minus = float(plus), float(minus)
    show_comparison(experiment, step.comparison)


def show_comparison(experiment: Experiment, now: Comparison) -> None:
    """Puts what the tests know on the experiment, which the caller saves."""
    store_comparison(experiment, now)
    experiment.log_e_plus, experiment.log_e_minus = now.deciding.log_e_plus, now.deciding.log_e_minus
    experiment.plain_log_e_plus, experiment.plain_log_e_minus = now.plain.log_e_plus, now.plain.log_e_minus
    experiment.log_e_futile = now.futility.log_e_minus
    experiment.units_treatment = now.plain.treated
    experiment.units_control = now.plain.units - now.plain.treated
    experiment.units_conditioned = now.conditioned
    experiment.guardrail_evidence = summarise_guardrails(now.guardrails)
    interval, beside = find_intervals(experiment, now)
    if interval is not None and beside is not None:  # hidden while either arm is small
        experiment.estimate, experiment.low, experiment.high = interval.mean, interval.low, interval.high
        experiment.plain_estimate = beside.mean
        experiment.plain_low, experiment.plain_high = beside.low, beside.high


def _settle(matured: Sequence[MaturedUnit], fresh: Sequence[Observation]) -> None:
    """No later look asks about them; their phases count those that were observed."""
    by_phase: dict[UUID, Counter[str]] = defaultdict(Counter)
    for observation in fresh:
        by_phase[observation.exposure.phase_id][observation.exposure.arm] += 1
    for phase in Phase.objects.filter(id__in=by_phase):
        phase.settled = dict(Counter(phase.settled) + by_phase[phase.id])
        phase.save(update_fields=["settled"])
    settle_exposures([unit.exposure for unit in matured])


def settle_exposures(exposures: Sequence[Exposure]) -> None:
    """They were observed, or their units were in an earlier phase: no later look asks about them."""
    Exposure.objects.filter(id__in=[one.id for one in exposures], settled=False).update(settled=True)


def read_verdict(experiment: Experiment) -> Verdict:
    """The promotion rule on what the experiment holds; it is acted on elsewhere."""
    evidence = Evidence(
        log_e_plus=experiment.log_e_plus,
        log_e_minus=experiment.log_e_minus,
        matured_control=experiment.units_control,
        matured_treatment=experiment.units_treatment,
        age_seconds=(database_now() - experiment.started_at).total_seconds(),
        guardrails=as_evidence(experiment.guardrail_evidence),
        sample_ratio_mismatch=experiment.sample_ratio_mismatch,
        requests_control=experiment.requests_control,
        failed_control=experiment.failed_control,
        requests_treatment=experiment.requests_treatment,
        failed_treatment=experiment.failed_treatment,
        log_e_futile=experiment.log_e_futile,
    )
    bounds = Bounds(
        promote_e=experiment.promote_e,
        rollback_e=experiment.rollback_e,
        guardrail_e=experiment.guardrail_e,
        min_units_per_arm=experiment.min_units_per_arm,
        min_seconds=experiment.min_seconds,
        max_excess_failures=experiment.max_excess_failures,
        min_requests_for_failures=experiment.min_requests_for_failures,
        futility_e=experiment.futility_e,
    )
    return decide(evidence, bounds)


def count_exposures(experiment: Experiment) -> list[PhaseCount]:
    """Units that met each arm in their first phase, by phase: what the sample-ratio test reads.

    Those that were observed are counted by the phases, the others here: one query a phase.
    """
    counts: list[PhaseCount] = []
    earlier: list[UUID] = []
    for phase in Phase.objects.filter(experiment=experiment).order_by("number"):
        pending = Exposure.objects.filter(experiment=experiment, phase=phase, settled=False)
        if earlier:  # who comes back is no fresh draw
            met = Exposure.objects.filter(experiment=experiment, phase__in=earlier, unit=OuterRef("unit"))
            pending = pending.filter(~Exists(met))
        by_arm = Counter(phase.settled)
        by_arm.update(dict(pending.order_by().values_list("arm").annotate(units=Count("id"))))
        counts.append(PhaseCount(by_arm[Arm.CONTROL], by_arm[Arm.TREATMENT], phase.treatment_share))
        earlier.append(phase.id)
    return counts
