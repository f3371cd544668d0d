"""Starts experiments. `router` says who serves which unit meanwhile; `looks` uses what has matured, and decides. The
arithmetic is in `statistics` and `routing`, which use no database.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from django.db import transaction

from models_registry.artifacts.holders import require_files
from models_registry.errors import ExperimentRunning, GateNotPassed
from models_registry.experiments.evidence import Comparison
from models_registry.experiments.feedback_lag import find_window
from models_registry.experiments.log import check_reason, record_look
from models_registry.experiments.outcome_range import find_range
from models_registry.experiments.outlook import estimate_verdict
from models_registry.experiments.plan import ExperimentPlan, check_plan
from models_registry.experiments.promotion import prepare_to_serve
from models_registry.experiments.variants import ArmSetupNames, name_variants
from models_registry.models import (
    AliasName,
    Arm,
    Experiment,
    ExperimentGroup,
    ExperimentState,
    LookAction,
    MissingPolicy,
    ModelVersion,
    Phase,
    RegisteredModel,
    Variant,
)
from models_registry.routing import lanes as routing
from models_registry.versions.approval import require_approval
from models_registry.versions.gates import read_gate
from models_registry.versions.retirement import refuse_retired
from models_registry.versions.services import get_champion, move_alias
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault, InvalidInput
from workspaces.storage.clock import database_now
from workspaces.templatetags.show import points

BOUNDS = (
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
    "ramp_units",
    "ramp_e",
    "smallest_effect",
    "futility_e",
    "holdout_share",
    "holdout_seconds",
)
"""What an experiment takes from its plan under the same name."""


def start_experiment(
    *, by: Actor, treatment: ModelVersion, plan: ExperimentPlan, reason: str, name: str = ""
) -> Experiment:
    """Champion against `treatment` from now on. The experiment's log begins with the reason.

    A version that no gate could judge may be tried; one that its gates block (`models_registry.versions.gates`) may
    not, and neither may one that the model server cannot serve.
    Raises InvalidInput, ExperimentRunning, NoChampion, GateNotPassed, BackendRefused.
    """
    check_plan(plan)
    reason = check_reason(reason)
    prepare_to_serve(treatment)
    return open_experiment(by=by, treatment=treatment, plan=plan, reason=reason, name=name)


@transaction.atomic
def open_experiment(
    *,
    by: Actor,
    treatment: ModelVersion,
    plan: ExperimentPlan,
    reason: str,
    name: str = "",
    setups: ArmSetupNames | None = None,
) -> Experiment:
    """`start_experiment` of a plan and a reason that were checked, and a version that was loaded. With `setups` the
    arms differ in these, and may have the same version; the caller keeps what the names stand for in the same
    transaction."""
    tried = Tried(treatment, setups)
    control = find_control(treatment.registered_model_id, [tried])
    experiment = add_experiment(by=by, control=control, tried=tried, plan=plan, reason=reason, name=name)
    if treatment.id != control.id:
        move_alias(by=by, version=treatment, name=AliasName.CHALLENGER)
    return experiment


@dataclass(frozen=True, slots=True)
class Tried:
    """What an experiment tries: a version of the model, and a version of an agent where `setups` names them."""

    version: ModelVersion
    setups: ArmSetupNames | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """The part [low, high) of the units that an experiment of a group has to itself."""

    group: ExperimentGroup
    low: float
    high: float


def find_control(model_id: uuid.UUID, tried: Sequence[Tried]) -> ModelVersion:
    """The champion, with which each of `tried` may be compared. Takes the model's row, under which experiments start.

    Raises ExperimentRunning, NoChampion, InvalidInput and GateNotPassed.
    """
    model = RegisteredModel.objects.select_for_update().get(id=model_id)
    if Experiment.objects.filter(registered_model=model, state=ExperimentState.RUNNING).exists():
        raise ExperimentRunning(f"Model {model.name} has an experiment running; stop it first.")
    control = get_champion(model)
    require_files(control, *(one.version for one in tried))
    for one in tried:
        _refuse_treatment(control, one)
    return control


def _refuse_treatment(control: ModelVersion, tried: Tried) -> None:
    treatment = tried.version
    if control.id == treatment.id and tried.setups is None:
        raise InvalidInput(
            "A version cannot be compared with itself.",
            faults=[FieldFault("treatment", f"{treatment} is the champion", "another version of the same model")],
        )
    if control.id == treatment.id:
        return
    refuse_retired(treatment)
    require_approval(treatment)
    gate = read_gate(treatment)
    if gate.blocks and (verdict := gate.deciding) is not None:
        raise GateNotPassed(
            f"{treatment} did not pass its gate: it is not shown to be better than {verdict.better_than}"
            f" ({points(verdict.estimate)} points [{points(verdict.low)}, {points(verdict.high)}])."
        )


def add_experiment(
    *,
    by: Actor,
    control: ModelVersion,
    tried: Tried,
    plan: ExperimentPlan,
    reason: str,
    name: str = "",
    lane: Lane | None = None,
) -> Experiment:
    """The rows of one experiment: call inside the transaction of `find_control`. Without a lane it has all units.

    Raises InvalidInput where a holdout is planned and both arms have one version.
    """
    if plan.holdout_share and tried.version.id == control.id:
        fault = FieldFault(
            "holdout_share",
            f"needs two versions, but {control} answers in both arms",
            "0: there is no other version to keep",
        )
        raise InvalidInput("The experiment cannot start.", faults=[fault])
    model, setups = control.registered_model, tried.setups
    group, low_end, high_end = (lane.group, lane.low, lane.high) if lane is not None else (None, 0.0, 1.0)
    bounds = {bound: getattr(plan, bound) for bound in BOUNDS}
    low, high = find_range(model) if plan.rescaled else (0.0, 1.0)
    if plan.missing == MissingPolicy.ZERO:
        low = 0.0
    versions = {Arm.CONTROL: control, Arm.TREATMENT: tried.version}
    given = {Arm.CONTROL: setups.control, Arm.TREATMENT: setups.treatment} if setups is not None else {}
    variants = [
        Variant(workspace=by.workspace, arm=arm, version=version, setup=given.get(arm, ""))
        for arm, version in versions.items()
    ]
    names = name_variants(variants)
    experiment = Experiment.objects.create(
        workspace=by.workspace,
        registered_model=model,
        group=group,
        lane_low=low_end,
        lane_high=high_end,
        name=name or f"{names[Arm.TREATMENT]} against {names[Arm.CONTROL]}",
        salt=routing.new_salt(),
        guardrails=[guardrail.as_stored() for guardrail in plan.guardrails],
        outcome_low=low,
        outcome_high=high,
        ramp=list(plan.ramp),
        secondary=list(plan.secondary),
        slices=list(plan.slices),
        attribution_auto=plan.attribution_window_seconds is None,
        expected_seconds=estimate_verdict(
            model=model, plan=plan, units_share=high_end - low_end, agent=setups.agent if setups is not None else None
        ).seconds,
        running=msgspec.to_builtins(Comparison()),
        **bounds,
    )
    experiment.started_at = database_now()  # looks ask how old it is
    experiment.save(update_fields=["started_at"])
    Phase.objects.create(
        workspace=by.workspace,
        experiment=experiment,
        treatment_share=plan.treatment_share,
        attribution_window_seconds=(
            find_window(model) if plan.attribution_window_seconds is None else plan.attribution_window_seconds
        ),
    )
    for variant in variants:
        variant.experiment = experiment
    Variant.objects.bulk_create(variants)
    notes = setups.notes if setups is not None else ()
    record_look(by=by, experiment=experiment, action=LookAction.START, reasons=[reason, *notes])
    details = {"reason": reason}
    record_audit(by=by, action="experiment.started", target=f"experiment:{experiment.id}", details=details)
    return experiment
