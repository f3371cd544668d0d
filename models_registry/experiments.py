"""Experiments: start, route, use matured observations, decide.

`decisions.gateway.decide` routes through `Router`; `decisions.rewards.maturing` hands matured units to
`consume_observations`. The arithmetic is in `statistics` and `routing`, which use no database.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db import transaction
from django.db.models import Count, Max, Q
from django.utils import timezone

from models_registry import routing
from models_registry.errors import ExperimentRunning, GateNotPassed, NoExperiment
from models_registry.evidence import UNIT_COLUMNS, RewardedUnit, run_tests
from models_registry.gates import read_gate
from models_registry.guardrails import (
    DEFAULT_GUARDRAILS,
    GuardrailPlan,
    MeasuredUnit,
    as_evidence,
    calculate_guardrails,
    find_guardrail_faults,
    read_guardrails,
)
from models_registry.holders import require_files
from models_registry.models import (
    AliasName,
    Arm,
    Experiment,
    ExperimentState,
    Exposure,
    MissingPolicy,
    ModelVersion,
    Observation,
    Phase,
    RegisteredModel,
    Variant,
)
from models_registry.outcome_range import find_range
from models_registry.promotion import end_experiment, get_treatment, prepare_to_serve
from models_registry.services import get_champion, get_serving, move_alias
from models_registry.statistics.intervals import display_interval
from models_registry.statistics.promotion import Bounds, Evidence, Verdict, decide
from models_registry.statistics.sample_ratio import PhaseCount, check_sample_ratio
from workspaces.actors import Actor, system
from workspaces.errors import FieldFault, InvalidInput
from workspaces.services import record_audit
from workspaces.templatetags.show import points

MAX_WINDOW_SECONDS = 30 * 86_400
MAX_SECONDS = 366 * 86_400
MAX_E = 1e12
MAX_UNITS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ExperimentPlan:
    """What one decides when starting: the share and every bound of the rule (docs/experiments.md)."""

    treatment_share: float = 0.5
    attribution_window_seconds: float = 86_400.0
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


@dataclass(frozen=True, slots=True)
class Route:
    """Who answers one unit: the version, and why. `other`, the version of the arm that the unit was not assigned, and
    `phase` are None outside experiments. `fallback` is asked where neither of them answers; None where the model has
    none."""

    version: ModelVersion
    other: ModelVersion | None = None
    fallback: ModelVersion | None = None
    phase: Phase | None = None
    arm: str | None = None
    assignment_probability: float | None = None


def check_plan(plan: ExperimentPlan) -> None:
    """Gathers every fault. Raises InvalidInput."""
    faults = []
    if not 0 < plan.treatment_share < 1:
        faults.append(
            FieldFault("treatment_share", f"{plan.treatment_share} must be above 0 and below 1", "for example 0.5")
        )
    for name in ("attribution_window_seconds", "exposure_window_seconds"):
        if not 0 <= getattr(plan, name) <= MAX_WINDOW_SECONDS:
            faults.append(FieldFault(name, "must be 0 to 30 days", "seconds"))
    for name in ("promote_e", "rollback_e", "guardrail_e"):
        if not 1 < getattr(plan, name) <= MAX_E:
            faults.append(FieldFault(name, "no evidence already gives 1", "more than 1, usually 20 to 100"))
    for name in ("min_units_per_arm", "min_requests_for_failures"):
        if not 1 <= getattr(plan, name) <= MAX_UNITS:
            faults.append(FieldFault(name, "out of range", f"1 to {MAX_UNITS}"))
    if not 0 < plan.max_excess_failures <= 1:
        faults.append(FieldFault("max_excess_failures", "must be above 0, up to 1", "0.05 is 5 points"))
    if not 0 <= plan.min_seconds <= MAX_SECONDS:
        faults.append(FieldFault("min_seconds", "must be 0 to 366 days", "seconds"))
    if plan.missing not in {"exclude", "zero"}:
        faults.append(FieldFault("missing", f"{plan.missing!r} is unknown", "exclude or zero"))
    faults += find_guardrail_faults(plan.guardrails)
    if faults:
        raise InvalidInput("The experiment cannot start with these settings.", faults=faults)


def start_experiment(*, by: Actor, treatment: ModelVersion, plan: ExperimentPlan, name: str = "") -> Experiment:
    """Champion against `treatment` from now on.

    A version that no gate could judge may be tried; one that its gates block (`models_registry.gates`) may not, and
    neither may one that the model server cannot serve.
    Raises InvalidInput, ExperimentRunning, NoChampion, GateNotPassed, BackendRefused.
    """
    check_plan(plan)
    prepare_to_serve(treatment)
    return _start(by, treatment, plan, name)


@transaction.atomic
def _start(by: Actor, treatment: ModelVersion, plan: ExperimentPlan, name: str) -> Experiment:
    model = RegisteredModel.objects.select_for_update().get(id=treatment.registered_model_id)
    if Experiment.objects.filter(registered_model=model, state=ExperimentState.RUNNING).exists():
        raise ExperimentRunning(f"Model {model.name} has an experiment running; stop it first.")
    control = get_champion(model)
    require_files(control, treatment)
    if control.id == treatment.id:
        raise InvalidInput(
            "A version cannot be compared with itself.",
            faults=[FieldFault("treatment", f"{treatment} is the champion", "another version of the same model")],
        )
    gate = read_gate(treatment)
    if gate.blocks and (verdict := gate.deciding) is not None:
        raise GateNotPassed(
            f"{treatment} did not pass its gate: it is not shown to be better than {verdict.better_than}"
            f" ({points(verdict.estimate)} points [{points(verdict.low)}, {points(verdict.high)}])."
        )
    bounds = {
        bound: getattr(plan, bound)
        for bound in (
            "promote_e",
            "rollback_e",
            "min_units_per_arm",
            "min_seconds",
            "exposure_window_seconds",
            "missing",
            "guardrail_e",
            "max_excess_failures",
            "min_requests_for_failures",
            "conditioned",
            "rescaled",
        )
    }
    low, high = find_range(model) if plan.rescaled else (0.0, 1.0)
    if plan.missing == MissingPolicy.ZERO:
        low = 0.0
    experiment = Experiment.objects.create(
        workspace=by.workspace,
        registered_model=model,
        name=name or f"{treatment} against {control}",
        salt=routing.new_salt(),
        guardrails=[guardrail.as_stored() for guardrail in plan.guardrails],
        outcome_low=low,
        outcome_high=high,
        **bounds,
    )
    Phase.objects.create(
        workspace=by.workspace,
        experiment=experiment,
        treatment_share=plan.treatment_share,
        attribution_window_seconds=plan.attribution_window_seconds,
    )
    for arm, version in ((Arm.CONTROL, control), (Arm.TREATMENT, treatment)):
        Variant.objects.create(workspace=by.workspace, experiment=experiment, arm=arm, version=version)
    move_alias(by=by, version=treatment, name=AliasName.CHALLENGER)
    record_audit(by=by, action="experiment.started", target=f"experiment:{experiment.id}")
    return experiment


class Router:
    """Routes many units of one model by one reading of the registry: four queries, however many units."""

    def __init__(self, model: RegisteredModel) -> None:
        self.champion, self.fallback = get_serving(model)
        self.phase = (
            Phase.objects.select_related("experiment")
            .filter(
                experiment__registered_model=model, experiment__state=ExperimentState.RUNNING, ended_at__isnull=True
            )
            .first()
        )
        self.versions: dict[str, ModelVersion] = {}
        if self.phase is not None:
            self.versions = {
                variant.arm: variant.version
                for variant in Variant.objects.filter(experiment=self.phase.experiment).select_related(
                    "version__artifact", "version__base__artifact", "version__registered_model"
                )
            }

    def route(self, unit: str) -> Route:
        if self.phase is None:
            return Route(version=self.champion, fallback=self.fallback)
        experiment = self.phase.experiment
        given = routing.assign(experiment.salt, str(experiment.id), unit, self.phase.treatment_share)
        other = Arm.CONTROL if given.arm == "treatment" else Arm.TREATMENT
        return Route(
            self.versions[given.arm], self.versions[other], self.fallback, self.phase, given.arm, given.probability
        )


@dataclass(frozen=True, slots=True)
class MaturedUnit:
    """A unit whose windows have passed, with its mean reward in [0, 1] or None where nothing came back.

    `guardrails`: its measures by name, in [0, 1], higher is worse; those that are not known are left out.
    `log_l`: log L0 and log L1 of its actions (`statistics.e_process.compute_posteriors`), None where one is not known.
    """

    exposure: Exposure
    outcome: float | None
    matured_at: dt.datetime
    guardrails: Mapping[str, float] = field(default_factory=dict)
    log_l: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Requests of an experiment's units since its start, by the arm assigned, and those that it could not serve."""

    control: int = 0
    failed_control: int = 0
    treatment: int = 0
    failed_treatment: int = 0


@transaction.atomic
def consume_observations(
    *, experiment: Experiment, matured: Sequence[MaturedUnit], requests: RequestCounts | None = None
) -> Verdict:
    """Appends matured units in exposure order, calculates the e-processes over all of them, and acts on the verdict.

    `requests` is looked at whether or not a unit has matured; None leaves the last known counts. Units that were
    consumed before are skipped, so a repeated call changes nothing. Raises NoExperiment.
    """
    locked = Experiment.objects.select_for_update().get(id=experiment.id)
    if locked.state != ExperimentState.RUNNING:
        raise NoExperiment(f"The experiment is {locked.state}.")
    seen = set(
        Observation.objects.filter(experiment=locked, unit__in=[m.exposure.unit for m in matured]).values_list(
            "unit", flat=True
        )
    )
    position = Observation.objects.filter(experiment=locked).aggregate(last=Max("position"))["last"] or 0
    fresh: list[Observation] = []
    for unit in sorted(matured, key=lambda m: (m.exposure.exposed_at, m.exposure.id)):
        if unit.exposure.unit in seen:  # a unit counts in its first phase only
            continue
        seen.add(unit.exposure.unit)
        position += 1
        fresh.append(
            Observation(
                workspace_id=locked.workspace_id,
                experiment=locked,
                exposure=unit.exposure,
                unit=unit.exposure.unit,
                position=position,
                outcome=_outcome(locked, unit),
                guardrails=dict(unit.guardrails),
                log_l_control=unit.log_l[0] if unit.log_l else None,
                log_l_treatment=unit.log_l[1] if unit.log_l else None,
                matured_at=unit.matured_at,
            )
        )
    if requests is not None:
        locked.requests_control, locked.failed_control = requests.control, requests.failed_control
        locked.requests_treatment, locked.failed_treatment = requests.treatment, requests.failed_treatment
    verdict = _calculate_evidence(locked, fresh)
    by, reasons = system(locked.workspace), "; ".join(verdict.reasons)
    if verdict.action == "promote":
        move_alias(by=by, version=get_treatment(locked), name=AliasName.CHAMPION, reason=reasons)
        end_experiment(by=by, experiment=locked, state=ExperimentState.PROMOTED, verdict=reasons)
    elif verdict.action == "roll_back":
        end_experiment(by=by, experiment=locked, state=ExperimentState.ROLLED_BACK, verdict=reasons)
    return verdict


def _outcome(experiment: Experiment, unit: MaturedUnit) -> float | None:
    if unit.outcome is None and experiment.missing == "zero":
        return 0.0
    return unit.outcome


def _calculate_evidence(experiment: Experiment, fresh: list[Observation]) -> Verdict:
    """Runs the e-processes over earlier and fresh observations, stores them, and applies the promotion rule."""
    earlier = list(
        Observation.objects.filter(experiment=experiment).order_by("position").values_list(*UNIT_COLUMNS, "guardrails")
    )
    rows = earlier + [
        (o.outcome, o.exposure.arm, o.exposure.phase.treatment_share, o.log_l_control, o.log_l_treatment, o.guardrails)
        for o in fresh
    ]
    _calculate_reward(experiment, [RewardedUnit(*row[:-1]) for row in rows if row[0] is not None], fresh)
    units = [MeasuredUnit(row[1] == Arm.TREATMENT, row[2], row[-1]) for row in rows]
    experiment.guardrail_evidence = calculate_guardrails(read_guardrails(experiment.guardrails), units)
    Observation.objects.bulk_create(fresh, batch_size=1000)
    experiment.sample_ratio_mismatch = check_sample_ratio(count_exposures(experiment)).mismatch
    verdict = _decide(experiment)
    experiment.verdict = "; ".join(verdict.reasons)[:500]
    experiment.save()
    return verdict


def _calculate_reward(experiment: Experiment, units: Sequence[RewardedUnit], fresh: Sequence[Observation]) -> None:
    """The decision test over `units`, those of `fresh` last."""
    if not units:
        return
    tests = run_tests(experiment, units)
    deciding, plain = tests.deciding, tests.plain
    counted = [observation for observation in fresh if observation.outcome is not None]
    start = len(units) - len(counted)
    for observation, plus, minus in zip(
        counted, deciding.log_e_plus[start:], deciding.log_e_minus[start:], strict=True
    ):
        observation.log_e_plus, observation.log_e_minus = float(plus), float(minus)
    experiment.log_e_plus, experiment.log_e_minus = float(deciding.log_e_plus[-1]), float(deciding.log_e_minus[-1])
    experiment.plain_log_e_plus = float(plain.log_e_plus[-1])
    experiment.plain_log_e_minus = float(plain.log_e_minus[-1])
    experiment.units_treatment = int(tests.arms.sum())
    experiment.units_control = len(units) - experiment.units_treatment
    experiment.units_conditioned = tests.conditioned
    interval = display_interval(deciding.contrasts * tests.scale, tests.arms)
    beside = display_interval(plain.contrasts, tests.arms)
    if interval is not None and beside is not None:  # hidden while either arm is small
        experiment.estimate, experiment.low, experiment.high = interval.mean, interval.low, interval.high
        experiment.plain_estimate = beside.mean
        experiment.plain_low, experiment.plain_high = beside.low, beside.high


def _decide(experiment: Experiment) -> Verdict:
    """The promotion rule on what the experiment holds."""
    evidence = Evidence(
        log_e_plus=experiment.log_e_plus,
        log_e_minus=experiment.log_e_minus,
        matured_control=experiment.units_control,
        matured_treatment=experiment.units_treatment,
        age_seconds=(timezone.now() - experiment.started_at).total_seconds(),
        guardrails=as_evidence(experiment.guardrail_evidence),
        sample_ratio_mismatch=experiment.sample_ratio_mismatch,
        requests_control=experiment.requests_control,
        failed_control=experiment.failed_control,
        requests_treatment=experiment.requests_treatment,
        failed_treatment=experiment.failed_treatment,
    )
    bounds = Bounds(
        promote_e=experiment.promote_e,
        rollback_e=experiment.rollback_e,
        guardrail_e=experiment.guardrail_e,
        min_units_per_arm=experiment.min_units_per_arm,
        min_seconds=experiment.min_seconds,
        max_excess_failures=experiment.max_excess_failures,
        min_requests_for_failures=experiment.min_requests_for_failures,
    )
    return decide(evidence, bounds)


def count_exposures(experiment: Experiment) -> list[PhaseCount]:
    """Units that met each arm, by treatment share: what the sample-ratio test reads."""
    counts = (
        Exposure.objects.filter(experiment=experiment)
        .values("phase__treatment_share")
        .annotate(
            control=Count("id", filter=Q(arm=Arm.CONTROL)),
            treatment=Count("id", filter=Q(arm=Arm.TREATMENT)),
        )
        .order_by("phase__treatment_share")
    )
    return [PhaseCount(row["control"], row["treatment"], row["phase__treatment_share"]) for row in counts]
