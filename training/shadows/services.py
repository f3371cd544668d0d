"""Starts and stops shadows. The job between the two is in `training.shadows.rounds`."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.utils import timezone

from decisions.agents.current import find_current_version
from decisions.models import Agent, Shadow, ShadowState, ShadowThen
from decisions.rewards.specs import current_reward_spec
from jobs.models import Job
from jobs.services import enqueue_job, request_cancel
from models_registry.artifacts.holders import require_files
from models_registry.experiments.log import check_reason
from models_registry.models import Alias, AliasName, ModelVersion
from models_registry.versions.retirement import refuse_retired
from models_registry.versions.services import refuse_no_policy
from training.evaluation.log_gate import ROWS
from training.shadows import ANSWER
from training.shadows.figures import find_untold, is_written
from workspaces.access.actors import Actor
from workspaces.access.key_bounds import refuse_with_budget
from workspaces.access.services import record_audit
from workspaces.errors import Conflict, FieldFault, InvalidInput


class ShadowRunning(Conflict):
    code = "shadow_running"


class ShadowOver(Conflict):
    code = "shadow_over"


@dataclass(frozen=True, slots=True)
class ShadowPlan:
    """`share` of the decisions in (0, 1], `min_decisions` with a reward before the evidence is judged, and what happens
    when it suffices: `tell` or `canary`."""

    share: float = 1.0
    min_decisions: int = 500
    then: str = ShadowThen.TELL.value


def start_shadow(*, by: Actor, agent: Agent, version: ModelVersion, plan: ShadowPlan, reason: str) -> Shadow:
    """From now on the version is asked about the agent's new decisions. Raises InvalidInput with every fault,
    ShadowRunning, NotAPolicy, VersionRetired, ArtifactRemoved, and NotAllowed for a key with a budget: no key pays for
    the shadow's questions."""
    refuse_with_budget(by, "starts no shadow")
    faults = _find_faults(agent, version, plan)
    if faults:
        raise InvalidInput("The shadow cannot start.", faults=faults)
    reason = check_reason(reason)
    refuse_no_policy(version)
    try:
        return _start(by, agent, version, plan, reason)
    except IntegrityError as error:
        raise ShadowRunning(f"{version} already runs in the shadow of {agent.slug}; stop that shadow first.") from error


@transaction.atomic
def _start(by: Actor, agent: Agent, version: ModelVersion, plan: ShadowPlan, reason: str) -> Shadow:
    refuse_retired(version)
    require_files(version)
    shadow: Shadow = Shadow.objects.create(
        workspace=by.workspace,
        agent=agent,
        version=version,
        share=plan.share,
        min_decisions=plan.min_decisions,
        then=plan.then,
        reason=reason,
        requested_by=by.name,
    )
    shadow.job = enqueue_job(kind=ANSWER, workspace=by.workspace, payload={"shadow": str(shadow.id)})
    shadow.save(update_fields=["job"])
    details = {"agent": agent.slug, "name": str(version), "share": plan.share, "then": plan.then, "reason": reason}
    record_audit(by=by, action="shadow.started", target=f"shadow:{shadow.id}", details=details)
    return shadow


def _find_faults(agent: Agent, version: ModelVersion, plan: ShadowPlan) -> list[FieldFault]:
    faults = []
    if version.registered_model_id != agent.registered_model_id:
        faults.append(
            FieldFault("version", f"{version} belongs to another model", f"a version of {agent.slug}'s model")
        )
    elif Alias.objects.filter(version=version, name=AliasName.CHAMPION).exists():
        faults.append(FieldFault("version", f"{version} is the champion and already decides", "another version"))
    current = find_current_version(agent)
    if current is None:
        faults.append(FieldFault("agent", f"{agent.slug} has no version", "an agent that decides"))
    elif plan.then == ShadowThen.CANARY and is_written(current) and (untold := find_untold(current_reward_spec(agent))):
        faults.append(FieldFault("then", f"no canary would ever open: {untold}", "tell"))
    if not 0 < plan.share <= 1:
        faults.append(FieldFault("share", f"{plan.share} is out of range", "above 0, up to 1"))
    if not 1 <= plan.min_decisions <= ROWS:
        faults.append(FieldFault("min_decisions", f"{plan.min_decisions} is out of range", f"1 to {ROWS}"))
    if plan.then not in ShadowThen.values:
        faults.append(FieldFault("then", f"{plan.then!r} is unknown", "tell or canary"))
    return faults


@transaction.atomic
def stop_shadow(*, by: Actor, shadow: Shadow, reason: str) -> Shadow:
    """What it found stays. Raises InvalidInput without a reason, ShadowOver."""
    reason = check_reason(reason)
    # The job's row first, as its rounds lock them.
    job = Job.objects.select_for_update().filter(shadow=shadow).first()
    if not _end(shadow, reason):
        raise ShadowOver(f"The shadow of {shadow.version} is already over.")
    if job is not None and not job.is_terminal:
        request_cancel(job_id=job.id)
    record_audit(by=by, action="shadow.stopped", target=f"shadow:{shadow.id}", details={"reason": reason})
    shadow.refresh_from_db()
    return shadow


def end_with_job(job: Job) -> None:
    """A round was cancelled, or died: nobody asks any more."""
    shadow = Shadow.objects.filter(job=job).first()
    if shadow is not None:
        _end(shadow, job.error or "Its job was cancelled.")


def _end(shadow: Shadow, reason: str) -> bool:
    """False where it was over."""
    running = Shadow.objects.filter(id=shadow.id, state=ShadowState.RUNNING)
    changed = running.update(state=ShadowState.STOPPED, ended_at=timezone.now(), end_reason=reason[:500])
    return changed == 1
