"""Makes a version the champion, and ends experiments.

Promoting by hand (a page, the API, a rehearsal) calls `promote_version`; the promotion rule (`looks`) calls
`promote_treatment`, since its treatment serves already. A version is loaded before it gets traffic,
outside any transaction: one that the model server cannot serve gets none.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from django.db import transaction

from models_registry.backends.asking import ready_version
from models_registry.errors import BackendUnavailable, CannotRevert
from models_registry.experiments.ledger import get_ledger
from models_registry.experiments.locking import lock_running
from models_registry.experiments.log import check_reason, record_look
from models_registry.models import (
    AliasMove,
    AliasName,
    Arm,
    Experiment,
    ExperimentGroup,
    ExperimentState,
    LookAction,
    ModelVersion,
    Phase,
    RegisteredModel,
    Variant,
)
from models_registry.versions.approval import require_approval
from models_registry.versions.services import drop_alias, find_last_move, move_alias, refuse_no_policy
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.storage.clock import database_now

log = logging.getLogger(__name__)


def prepare_to_serve(version: ModelVersion) -> None:
    """Has the version's servers load it, so that its first decision neither waits nor fails.

    Raises NotAPolicy for a reward model, BackendRefused where a server cannot serve it or there is none. Where none
    answers nobody is served at all; that is logged, and the first decision loads the version.
    """
    refuse_no_policy(version)
    try:
        ready_version(version)
    except BackendUnavailable as error:
        log.warning("%s was not loaded before it got traffic: %s", version, error)


def promote_version(*, by: Actor, version: ModelVersion, reason: str, reverts: AliasMove | None = None) -> None:
    """The version serves everyone from now on; a running experiment of its model ends without a winner.

    reason: kept in the audit, in the log of the experiment that this ends, and as its verdict. reverts: the last move
    of the champion, which this takes back. Raises InvalidInput without a reason, BackendRefused where the model server
    cannot serve the version, NotApproved, VersionRetired, and CannotRevert where the champion was moved meanwhile;
    nothing has changed then.
    """
    reason = check_reason(reason)
    if reverts is None:
        require_approval(version)
    prepare_to_serve(version)
    with transaction.atomic():
        # The model's row is the lock under which experiments start.
        RegisteredModel.objects.select_for_update().get(id=version.registered_model_id)
        last = find_last_move(version.registered_model_id, AliasName.CHAMPION) if reverts is not None else None
        if last != reverts:
            raise CannotRevert(f"{version.registered_model}@champion has moved since.")
        of_model = Experiment.objects.filter(registered_model=version.registered_model_id)
        running = list(of_model.filter(state=ExperimentState.RUNNING).order_by("id").select_for_update())
        move_alias(by=by, version=version, name=AliasName.CHAMPION, reason=reason)
        for experiment in running:
            experiment.promoted_version = version
            end_experiment(by=by, experiment=experiment, action=LookAction.PROMOTE_BY_HAND, reasons=[reason])


@transaction.atomic
def stop_experiment(*, by: Actor, experiment: Experiment, reason: str) -> Experiment:
    """Traffic returns to the champion. The verdict is the reason, then what was lacking at the last look.

    Raises InvalidInput without a reason, NoExperiment when it is over already.
    """
    reason = check_reason(reason)
    locked = lock_running(experiment)
    reasons = [reason, locked.verdict] if locked.verdict else [reason]
    end_experiment(by=by, experiment=locked, action=LookAction.STOP, reasons=reasons)
    return locked


ENDS = {
    LookAction.PROMOTE: ExperimentState.PROMOTED,
    LookAction.ROLL_BACK: ExperimentState.ROLLED_BACK,
    LookAction.GIVE_UP: ExperimentState.FUTILE,
    LookAction.STOP: ExperimentState.STOPPED,
    LookAction.PROMOTE_BY_HAND: ExperimentState.STOPPED,
    LookAction.SUPERSEDE: ExperimentState.SUPERSEDED,
}


def end_experiment(*, by: Actor, experiment: Experiment, action: LookAction, reasons: Sequence[str]) -> None:
    """Call inside a transaction that holds the experiment's row, and of a group the model's, with one of `ENDS`. The
    version that was tried is nobody's challenger any more, whatever came of it. The others of a group end with a
    promotion: they were compared with what is no longer the champion."""
    now, state = database_now(), ENDS[action]
    record_look(by=by, experiment=experiment, action=action, reasons=reasons)
    verdict = ": ".join(reasons) if action == LookAction.STOP else "; ".join(reasons)
    experiment.state, experiment.ended_at, experiment.verdict = state, now, verdict[:500]
    experiment.ended_by = by.name if state == ExperimentState.STOPPED else ""
    experiment.save(update_fields=["state", "ended_at", "ended_by", "promoted_version", "verdict"])
    Phase.objects.filter(experiment=experiment, ended_at__isnull=True).update(ended_at=now)
    drop_alias(by=by, version=get_variant(experiment, Arm.TREATMENT).version, name=AliasName.CHALLENGER)
    if (group := experiment.group) is not None:
        running = Experiment.objects.filter(group=group, state=ExperimentState.RUNNING)
        beside = running.order_by("id").select_for_update()
        if state == ExperimentState.PROMOTED:
            for other in list(beside):
                end_experiment(
                    by=by, experiment=other, action=LookAction.SUPERSEDE, reasons=[f"“{experiment}” was promoted"]
                )
        if not beside.exists():
            ExperimentGroup.objects.filter(id=group.id, ended_at__isnull=True).update(ended_at=now)
    if state == ExperimentState.STOPPED:  # the other ends are the rule's, and their evidence stays with them
        details = {"reason": experiment.verdict}
        record_audit(by=by, action="experiment.stopped", target=f"experiment:{experiment.id}", details=details)


def promote_treatment(*, by: Actor, experiment: Experiment, reason: str) -> None:
    """What won becomes everyone's, by the rule: the version the champion, the set-up its agent's own. Call inside the
    transaction that ends the experiment."""
    won, control = (get_variant(experiment, arm) for arm in (Arm.TREATMENT, Arm.CONTROL))
    if won.version_id != control.version_id:
        move_alias(by=by, version=won.version, name=AliasName.CHAMPION, reason=reason)
    if won.setup:
        get_ledger().adopt_setup(by=by, variant=won)


def get_variant(experiment: Experiment, arm: Arm) -> Variant:
    found: Variant = Variant.objects.select_related("version__registered_model").get(experiment=experiment, arm=arm)
    return found
