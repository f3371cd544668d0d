"""Starts, resumes, cancels, works off and follows pipelines."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.db import transaction
from rich.console import Console

from decisions.models import Agent
from jobs.context import JobContext
from jobs.errors import AlreadyFinished
from jobs.following import follow_job
from jobs.models import Job, JobState
from jobs.services import enqueue_job, request_cancel
from training.errors import InvalidPipeline, PipelineFailed, PipelineUnderWay, RunOver
from training.loops.pipeline.loop import PipelineLoop
from training.loops.pipeline.plan import PipelinePlan, Prepared, check_run, prepare_pipeline
from training.loops.pipeline.report import build_report
from training.loops.pipeline.stored import StoredPipeline
from training.models import TrainingRun
from training.models.export import ExportState
from training.runs.services import cancel_run
from workspaces.access.actors import Actor, system
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault
from workspaces.models import Workspace
from workspaces.storage.ids import uuid7

KIND = "training.loops.pipeline"
PREFIX = "pipeline-"
UNDER_WAY = (JobState.QUEUED, JobState.RUNNING)


def find_agent(slug: str, workspace: str = "") -> Agent:
    """Raises InvalidPipeline."""
    agents = Agent.objects.filter(slug=slug).select_related("workspace")
    if workspace:
        agents = agents.filter(workspace__slug=workspace)
    found = list(agents[:2])
    if len(found) != 1:
        fault = FieldFault("agent", f"{len(found) or 'no'} agents are called {slug!r}", "an agent's slug")
        raise InvalidPipeline("The pipeline cannot start.", faults=[fault])
    return found[0]


def find_pipelines(workspace: Workspace) -> Any:
    """Their jobs, newest first."""
    return Job.objects.for_workspace(workspace).filter(kind=KIND).order_by("-id")


def find_pipeline_of(run: TrainingRun) -> Job | None:
    """The newest job of the pipeline that started the run; no statement for a run without such a tag."""
    name = next((tag for tag in run.tags if tag.startswith(PREFIX)), None)
    return find_pipelines(run.workspace).filter(payload__pipeline=name).first() if name is not None else None


def start_pipeline(*, by: Actor, agent: Agent, plan: PipelinePlan) -> Job:
    """The same pipeline of the agent that is under way, or a new one. Raises InvalidPipeline with every reason why it
    cannot start; nothing is written then."""
    return _start_once(by, agent, prepare_pipeline(agent, plan))  # which may ask a hub, so before anything is locked


@transaction.atomic
def _start_once(by: Actor, agent: Agent, prepared: Prepared) -> Job:
    # A simultaneous request waits here, and finds the first one's job.
    Workspace.objects.select_for_update(no_key=True).get(id=by.workspace.id)
    same = {"payload__agent": agent.slug, "payload__plan": prepared.plan.as_plain()}
    under_way = find_pipelines(by.workspace).filter(state__in=UNDER_WAY, **same).first()
    if under_way is not None:
        return under_way
    stored = StoredPipeline(agent, f"{PREFIX}{str(uuid7())[-8:]}", by.name, prepared)
    return _enqueue(by, stored.as_payload(), "pipeline.started")


def resume_pipeline(*, by: Actor, job: Job) -> Job:
    """A new job for one that was cancelled or died: it goes on with the same rows. Raises PipelineUnderWay, and
    InvalidPipeline where its run could not start any more."""
    stored = StoredPipeline.from_payload(by.workspace, job.payload)
    if stored.find_run() is None:
        check_run(stored.agent, stored.prepared)
    return _resume_once(by, job)


@transaction.atomic
def _resume_once(by: Actor, job: Job) -> Job:
    locked = Job.objects.select_for_update().get(id=job.id)
    name = locked.payload["pipeline"]
    newest = find_pipelines(by.workspace).filter(payload__pipeline=name).first()
    if newest is None or newest.state not in (JobState.CANCELLED, JobState.DEAD):
        raise PipelineUnderWay(f"{name} is running or done, so it cannot be resumed.")
    return _enqueue(by, locked.payload, "pipeline.resumed")


def _enqueue(by: Actor, payload: dict[str, Any], action: str) -> Job:
    job = enqueue_job(kind=KIND, workspace=by.workspace, payload=payload)
    details = {"agent": payload["agent"], "method": payload["plan"]["method"]}
    record_audit(by=by, action=action, target=f"job:{job.id}", details=details)
    return job


@transaction.atomic
def cancel_pipeline(*, by: Actor, job: Job) -> Job:
    """Its run and its export are cancelled with it. Raises AlreadyFinished."""
    cancelled = request_cancel(job_id=job.id)
    record_audit(by=by, action="pipeline.cancelled", target=f"job:{job.id}")
    return cancelled


def run_pipeline(context: JobContext) -> dict[str, Any] | None:
    """The job's handler."""
    loop = PipelineLoop(context)
    loop.advance()
    assert loop.deployment is not None
    report = build_report(loop.stored, loop.deployment, loop.ollama)
    with context.fenced():
        context.progress(1.0, f"{report['version']}. {loop.deployment.because}")
        context.complete(report)
    return None


def end_with_job(job: Job) -> None:
    """One that ends early takes its run and its export with it; what was made stays for a new job."""
    assert job.workspace is not None
    stored = StoredPipeline.from_payload(job.workspace, job.payload)
    run = stored.find_run()
    if run is None:
        return
    if not run.is_terminal:
        with suppress(RunOver):  # it ended by itself in this moment
            cancel_run(by=system(job.workspace), run=run)
    elif run.produced_version is not None:
        for export in (stored.find_export(run.produced_version), stored.find_gguf(run.produced_version)):
            if export is not None and export.state == ExportState.QUEUED and export.job_id is not None:
                with suppress(AlreadyFinished):
                    request_cancel(job_id=export.job_id)


def follow_pipeline(job: Job, *, console: Console) -> dict[str, Any]:
    """Waits for its end, with progress on `console`, and returns its report. Ctrl-C cancels it and is raised again.
    Raises PipelineFailed, which says where there is a version nevertheless."""
    try:
        ended = follow_job(
            lambda: Job.objects.filter(id=job.id).first(), console=console, title="pipeline", stage=_stage
        )
    except KeyboardInterrupt:
        assert job.workspace is not None
        with suppress(AlreadyFinished):
            cancel_pipeline(by=system(job.workspace), job=job)
        raise
    if ended is None or ended.state != JobState.SUCCEEDED:
        reason = (ended.error or ended.message) if ended is not None else "its job is gone"
        run = (
            TrainingRun.objects.filter(workspace=job.workspace, dataset__name=job.payload["pipeline"])
            .order_by("-id")
            .first()
        )
        version = run.produced_version if run is not None else None
        how = f"made {version} and ended before its last stage" if version is not None else "ended without a version"
        raise PipelineFailed(f"{job.payload['pipeline']} {how}: {reason}")
    return dict(ended.result or {})


def _stage(message: str) -> str:
    """Without the counts and shares, which change all the time."""
    return message.split(" (")[0].rsplit(":", 1)[0]
