"""Starts and ends holdouts, and keeps what they show.

A holdout is not an experiment: nothing is promoted or rolled back by it. A part of a model's units keeps one version
for weeks while everybody else gets whatever is promoted, so that one sees what all of it together was worth, and for
how long. `router` says who is held. The ledger counts what came of it
(`ledger.Ledger.count_holdout_units`).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import F, Q

from models_registry.artifacts.holders import require_files
from models_registry.errors import ExperimentRunning, HoldoutOver, HoldoutRunning
from models_registry.experiments.ledger import Sums, get_ledger
from models_registry.experiments.log import check_reason
from models_registry.experiments.promotion import get_variant, prepare_to_serve
from models_registry.models import Arm, Experiment, ExperimentState, Holdout, ModelVersion, RegisteredModel
from models_registry.models.holdout_bounds import find_holdout_faults
from models_registry.routing import lanes as routing
from models_registry.statistics.holdouts import ArmSums
from models_registry.versions.retirement import refuse_retired
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import InvalidInput
from workspaces.storage.clock import database_now

EVERY = dt.timedelta(hours=1)
"""How old its figures may get while it runs."""
FEEDBACK = dt.timedelta(days=1)
"""So long after the end its figures still change with the feedback on its last decisions; then they stay."""
WEEK = dt.timedelta(days=7)


def start_holdout(*, by: Actor, version: ModelVersion, share: float, seconds: float, reason: str) -> Holdout:
    """The share of the units of the version's model keeps the version from now on, for so many seconds.

    Raises InvalidInput with every fault, HoldoutRunning, ExperimentRunning (units of an experiment that runs already
    would leave their arms), NotAPolicy, VersionRetired, ArtifactRemoved, BackendRefused.
    """
    faults = find_holdout_faults(share, seconds)
    if faults:
        raise InvalidInput("The holdout cannot start.", faults=faults)
    reason = check_reason(reason)
    prepare_to_serve(version)
    with transaction.atomic():
        # The model's row is the lock under which experiments start, too.
        model = RegisteredModel.objects.select_for_update().get(id=version.registered_model_id)
        if Experiment.objects.filter(registered_model=model, state=ExperimentState.RUNNING).exists():
            raise ExperimentRunning(f"Model {model.name} has an experiment running; start before or after it.")
        return open_holdout(by=by, version=version, share=share, seconds=seconds, reason=reason)


def open_holdout(*, by: Actor, version: ModelVersion, share: float, seconds: float, reason: str) -> Holdout:
    """`start_holdout` of what was checked. Call inside a transaction that holds the model's row. Raises HoldoutRunning,
    VersionRetired, ArtifactRemoved."""
    if find_running_holdout(version.registered_model) is not None:
        raise HoldoutRunning(f"Model {version.registered_model} has a holdout running; end it first.")
    require_files(version)
    refuse_retired(version)
    now = database_now()
    holdout = Holdout.objects.create(
        workspace=by.workspace,
        registered_model=version.registered_model,
        version=version,
        share=share,
        salt=routing.new_salt(),
        reason=reason,
        started_by=by.name,
        started_at=now,
        ends_at=now + dt.timedelta(seconds=seconds),
    )
    details = {"reason": reason, "version": str(version), "share": share}
    record_audit(by=by, action="holdout.started", target=f"holdout:{holdout.id}", details=details)
    return holdout


def hold_out_control(*, by: Actor, experiment: Experiment) -> Holdout | None:
    """What the plan of a promoted experiment wants: its control is held out. None where none was planned, or where one
    runs already, which goes on. Call inside the transaction of the promotion."""
    if not experiment.holdout_share or find_running_holdout(experiment.registered_model) is not None:
        return None
    control = get_variant(experiment, Arm.CONTROL).version
    plan = {"share": experiment.holdout_share, "seconds": experiment.holdout_seconds}
    return open_holdout(by=by, version=control, **plan, reason=f"planned with “{experiment}”")


def find_running_holdout(model: RegisteredModel) -> Holdout | None:
    return Holdout.objects.filter(registered_model=model, ended_at__isnull=True).first()


@transaction.atomic
def end_holdout(*, by: Actor, holdout: Holdout, reason: str) -> Holdout:
    """Everybody gets the champion from now on. Raises InvalidInput without a reason, HoldoutOver."""
    reason = check_reason(reason)
    locked = Holdout.objects.select_for_update().get(id=holdout.id)
    if locked.ended_at is not None:
        raise HoldoutOver("The holdout is over.")
    locked.ended_at, locked.end_reason = database_now(), reason
    locked.save(update_fields=["ended_at", "end_reason"])
    record_audit(by=by, action="holdout.ended", target=f"holdout:{holdout.id}", details={"reason": reason})
    return locked


def follow_holdouts(now: dt.datetime | None = None) -> int:
    """Ends those whose time is up, and counts those again that were not counted lately. The number that was counted."""
    moment = now or database_now()
    Holdout.objects.filter(ended_at__isnull=True, ends_at__lte=moment).update(ended_at=moment)
    settled = Q(ended_at__isnull=False, counted_at__gte=F("ended_at") + FEEDBACK)
    due = Holdout.objects.exclude(settled).filter(Q(counted_at__isnull=True) | Q(counted_at__lte=moment - EVERY))
    found = list(due.select_related("registered_model"))
    for holdout in found:
        count_holdout(holdout, moment)
    return len(found)


def count_holdout(holdout: Holdout, now: dt.datetime) -> None:
    """Writes the holdout's figures as they are known now."""
    found = get_ledger().count_holdout_units(holdout, now)
    figures = {
        "whole" if one.week is None else str(one.week): {"served": _as_stored(one.served), "held": _as_stored(one.held)}
        for one in found
    }
    Holdout.objects.filter(id=holdout.id).update(figures=figures, counted_at=now)


def _as_stored(sums: ArmSums) -> list[float]:
    return [sums.units, sums.total, sums.squares]


def read_figures(holdout: Holdout) -> tuple[Sums, list[Sums]]:
    """Of the whole time, and of each week in order; weeks without a unit are not there."""
    stored: Mapping[str, Any] = holdout.figures
    read = [_read(None if name == "whole" else int(name), one) for name, one in stored.items()]
    whole = next((one for one in read if one.week is None), Sums(None, ArmSums(), ArmSums()))
    weeks = sorted((one for one in read if one.week is not None), key=lambda one: one.week or 0)
    return whole, weeks


def _read(week: int | None, one: Mapping[str, Sequence[float]]) -> Sums:
    served, held = (ArmSums(int(one[name][0]), one[name][1], one[name][2]) for name in ("served", "held"))
    return Sums(week, served, held)


def threshold_of(share: float) -> bytes:
    """The 8 bytes below which the first 8 of a unit's hash lie where it is held: `routing.is_in_lane` from 0 to share,
    for the database to compare."""
    return math.ceil(share * routing.SCALE).to_bytes(8, "big")
