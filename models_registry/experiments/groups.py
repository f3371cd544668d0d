"""Experiments of several versions at the same time: a group, of which each has a lane of the units to itself.

Within its lane each one is an experiment like any other, with a control, phases, evidence and an end of its own
(`experiments`, `looks`). The group says who they are, ends with the last of them, and makes them share one risk of
promoting a version that is not better. Why lanes and not one shared control: docs/adr/0038.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django.db import transaction

from models_registry.experiments.locking import lock_running_group
from models_registry.experiments.log import check_reason
from models_registry.experiments.plan import MAX_E, ExperimentPlan, check_plan
from models_registry.experiments.promotion import end_experiment, prepare_to_serve
from models_registry.experiments.services import Lane, Tried, add_experiment, find_control
from models_registry.models import ExperimentGroup, LookAction, ModelVersion
from models_registry.routing import lanes as routing
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault, InvalidInput

FEWEST, MOST = 2, 8


def start_group(
    *, by: Actor, treatments: Sequence[ModelVersion], plan: ExperimentPlan, reason: str, name: str = ""
) -> ExperimentGroup:
    """Each of the versions against the champion from now on, in the order given.

    Raises InvalidInput, ExperimentRunning, NoChampion, GateNotPassed, BackendRefused.
    """
    check_plan(plan)
    reason = check_reason(reason)
    tried = [Tried(version) for version in treatments]
    check_tried(tried, plan)
    for version in treatments:
        prepare_to_serve(version)
    return open_group(by=by, tried=tried, plan=plan, reason=reason, name=name)


def check_tried(tried: Sequence[Tried], plan: ExperimentPlan, *, field: str = "treatments") -> None:
    """Raises InvalidInput, about `field` of the caller, unless there are 2 to 8 of them, all different and of one
    model."""
    faults = []
    if not FEWEST <= len(tried) <= MOST:
        expected = f"{FEWEST} to {MOST} versions; for one, start an experiment"
        faults.append(FieldFault(field, f"has {len(tried)}", expected))
    seen: list[tuple[object, str]] = []
    for index, one in enumerate(tried):
        key = (one.version.id, one.setups.treatment if one.setups is not None else "")
        if key in seen:
            faults.append(FieldFault(f"{field}[{index}]", "is given twice", "each once"))
        seen.append(key)
        if one.version.registered_model_id != tried[0].version.registered_model_id:
            reason = f"{one.version} and {tried[0].version} belong to different models"
            faults.append(FieldFault(f"{field}[{index}]", reason, "versions of one model"))
    if plan.promote_e * len(tried) > MAX_E:
        faults.append(FieldFault("promote_e", f"times {len(tried)} is above {MAX_E:g}", "less, usually 20 to 100"))
    if faults:
        raise InvalidInput("The group cannot start.", faults=faults)


@transaction.atomic
def open_group(
    *, by: Actor, tried: Sequence[Tried], plan: ExperimentPlan, reason: str, name: str = ""
) -> ExperimentGroup:
    """`start_group` of what was checked, and of versions that were loaded. k experiments of which each promotes at k
    times the evidence promote any version that is not better with a probability of 1 / promote_e at most (Bonferroni);
    a version that is not worse is rolled back as rarely as alone."""
    count = len(tried)
    control = find_control(tried[0].version.registered_model_id, tried)
    group = ExperimentGroup.objects.create(
        workspace=by.workspace,
        registered_model=control.registered_model,
        name=name or f"{count} versions against {control}",
        salt=routing.new_salt(),
    )
    strict = replace(plan, promote_e=plan.promote_e * count)
    for index, one in enumerate(tried):
        lane = Lane(group, index / count, (index + 1) / count)
        add_experiment(by=by, control=control, tried=one, plan=strict, reason=reason, lane=lane)
    details = {"reason": reason, "experiments": count}
    record_audit(by=by, action="experiment_group.started", target=f"experiment_group:{group.id}", details=details)
    return group


@transaction.atomic
def stop_group(*, by: Actor, group: ExperimentGroup, reason: str) -> None:
    """Stops each of its experiments that still runs. Raises InvalidInput without a reason, NoExperiment where none
    does."""
    reason = check_reason(reason)
    for experiment in lock_running_group(group):
        reasons = [reason, experiment.verdict] if experiment.verdict else [reason]
        end_experiment(by=by, experiment=experiment, action=LookAction.STOP, reasons=reasons)
