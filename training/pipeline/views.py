"""Pages of a pipeline: its stages and what came of each, and the ways to cancel and resume it."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from decisions.models import Agent
from jobs.models import Job, JobState
from training.pipeline.deployment import read_deployment
from training.pipeline.services import cancel_pipeline, find_pipelines, resume_pipeline
from training.pipeline.stored import StoredPipeline
from workspaces.models import Role
from workspaces.pages import STOP_POLLING, PageRequest, answer_confirmation, wants_part, workspace_page


def _get(request: PageRequest, pk: uuid.UUID) -> Job:
    """Raises Http404."""
    job: Job | None = find_pipelines(request.workspace).filter(pk=pk).first()
    if job is None:
        raise Http404("Pipeline not found.")
    return job


@require_safe
@workspace_page()
def pipeline_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """One that was resumed leads to its newest job. htmx polls the part until the job is over."""
    job = _get(request, pk)
    newest = find_pipelines(request.workspace).filter(payload__pipeline=job.payload["pipeline"]).first()
    if newest != job:
        return redirect("pages:pipeline", request.workspace.slug, newest.pk)
    part = wants_part(request)
    template = "training/pipelines/_status.html" if part else "training/pipelines/detail.html"
    return render(request, template, _show(request, job), status=STOP_POLLING if part and job.is_terminal else 200)


def _show(request: PageRequest, job: Job) -> dict[str, Any]:
    """State, and what the stages have made so far."""
    try:
        stored = StoredPipeline.from_payload(request.workspace, job.payload)
    except Agent.DoesNotExist as error:
        raise Http404("Pipeline not found.") from error
    run = stored.find_run()
    version = run.produced_version if run is not None else None
    return {
        "job": job,
        "name": stored.name,
        "agent": stored.agent,
        "plan": stored.prepared.plan,
        "base": stored.base_version or stored.prepared.base_model,
        "dataset": stored.find_dataset(),
        "run": run,
        "version": version,
        "export": stored.find_export(version) if version is not None else None,
        "deployment": read_deployment(version) if version is not None else None,
        "state": "stopping" if job.cancel_requested and not job.is_terminal else job.state,
        "cancellable": not job.is_terminal and not job.cancel_requested,
        "resumable": job.state in (JobState.CANCELLED, JobState.DEAD),
    }


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def pipeline_cancel(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """GET asks, POST has it stop."""
    job = _get(request, pk)
    return answer_confirmation(
        request,
        title=f"Cancel {job.payload['pipeline']}?",
        explanation="Its current run is cancelled too. You can resume the pipeline later.",
        action="Cancel the pipeline",
        back=reverse("pages:pipeline", args=[request.workspace.slug, pk]),
        do=lambda: cancel_pipeline(by=request.actor, job=job),
        done="The pipeline is stopping.",
    )


@require_POST
@workspace_page(role=Role.ADMIN)
def pipeline_resume(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """A new job for one that was cancelled or died."""
    job = resume_pipeline(by=request.actor, job=_get(request, pk))
    messages.success(request, "The pipeline has resumed.")
    return redirect("pages:pipeline", request.workspace.slug, job.pk)
