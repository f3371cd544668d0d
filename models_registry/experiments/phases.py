"""Phases of an experiment: the next one of a ramp, and a share that a person changes.

A phase has one treatment share and one attribution window, both frozen when it starts; a unit counts in its first phase
only. `looks` opens what a ramp plans, the API and the page what a person wants.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from models_registry.experiments.feedback_lag import find_window
from models_registry.experiments.guardrails import as_evidence
from models_registry.experiments.locking import lock_running
from models_registry.experiments.log import check_reason, record_look
from models_registry.models import Experiment, LookAction, Phase
from models_registry.statistics.ramp import RampBounds, find_obstacles
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault, InvalidInput
from workspaces.storage.clock import database_now
from workspaces.templatetags.show import percent


def find_next_share(experiment: Experiment, phase: Phase) -> float | None:
    """The ramp's next share after the phase's own; None at its end."""
    return next((share for share in experiment.ramp if share > phase.treatment_share), None)


def list_obstacles(experiment: Experiment, phase: Phase) -> list[str]:
    """What keeps the ramp's next phase from opening, by the figures of the last look."""
    return find_obstacles(
        units=sum(phase.settled.values()),
        log_e_minus=experiment.log_e_minus,
        guardrails=as_evidence(experiment.guardrail_evidence),
        sample_ratio_mismatch=experiment.sample_ratio_mismatch,
        bounds=RampBounds(units=experiment.ramp_units, max_e=experiment.ramp_e),
    )


def follow_ramp(*, by: Actor, experiment: Experiment) -> Phase | None:
    """Opens the next phase where nothing stands against it. Call inside a transaction that holds the experiment's row,
    after a look that goes on."""
    phase = Phase.objects.get(experiment=experiment, ended_at__isnull=True)
    share = find_next_share(experiment, phase)
    if share is None or list_obstacles(experiment, phase):
        return None
    units = sum(phase.settled.values())
    shown = (
        f"{units:,} units matured in phase {phase.number} without shown harm (E of harm below {experiment.ramp_e:g})"
    )
    return _open_phase(by, experiment, phase, share, LookAction.OPEN_PHASE, [shown])


@transaction.atomic
def change_share(*, by: Actor, experiment: Experiment, treatment_share: float, reason: str) -> Phase:
    """A new phase with this share. A ramp goes on from it.

    Raises InvalidInput for a share not inside (0, 1), the share it has, or no reason; NoExperiment when it is over.
    """
    reason = check_reason(reason)
    if not 0 < treatment_share < 1:
        faults = [FieldFault("treatment_share", f"{treatment_share} must be above 0 and below 1", "for example 0.5")]
        raise InvalidInput("The share cannot be changed to this.", faults=faults)
    locked = lock_running(experiment)
    phase = Phase.objects.get(experiment=locked, ended_at__isnull=True)
    if phase.treatment_share == treatment_share:
        faults = [FieldFault("treatment_share", f"is {treatment_share} already", "another share")]
        raise InvalidInput("The share cannot be changed to this.", faults=faults)
    opened = _open_phase(by, locked, phase, treatment_share, LookAction.CHANGE_SHARE, [reason])
    details = {"from": phase.treatment_share, "to": treatment_share, "reason": reason}
    record_audit(by=by, action="experiment.share_changed", target=f"experiment:{locked.id}", details=details)
    return opened


def _open_phase(
    by: Actor, experiment: Experiment, before: Phase, share: float, action: LookAction, reasons: Sequence[str]
) -> Phase:
    before.ended_at = database_now()
    before.save(update_fields=["ended_at"])
    window = before.attribution_window_seconds
    if experiment.attribution_auto:
        window = find_window(experiment.registered_model)
    opened = Phase.objects.create(
        workspace_id=experiment.workspace_id,
        experiment=experiment,
        number=before.number + 1,
        treatment_share=share,
        attribution_window_seconds=window,
    )
    said = f"the treatment's share goes from {percent(before.treatment_share)} to {percent(share)}"
    record_look(by=by, experiment=experiment, action=action, reasons=[*reasons, said])
    return opened
