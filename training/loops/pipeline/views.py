"""Pages of pipelines: the list, one with its stages and what came of each, and the ways to start, cancel and resume
one."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from decisions.models import Agent
from jobs.models import Job, JobState
from training.errors import InvalidPipeline
from training.loops.pipeline.deployment import read_deployment
from training.loops.pipeline.form import PipelineForm
from training.loops.pipeline.listed import find_newest, list_pipelines
from training.loops.pipeline.services import cancel_pipeline, find_pipelines, resume_pipeline, start_pipeline
from training.loops.pipeline.stored import StoredPipeline
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Role
from workspaces.pages.confirmed import Confirmation, confirmed
from workspaces.pages.guard import PageRequest, wants_part, workspace_page
from workspaces.pages.polled import Followed, answer_part, polled_part

PAGE = 25
COMMAND = ".venv/bin/python manage.py pipeline --agent AGENT --method posterior"


def _get(request: PageRequest, pk: uuid.UUID) -> Job:
    """Raises Http404."""
    job: Job | None = find_pipelines(request.workspace).filter(pk=pk).first()
    if job is None:
        raise Http404("Pipeline not found.")
    return job


@require_safe
@workspace_page()
def pipeline_list(request: PageRequest) -> HttpResponse:
    """Newest first, read by cursor."""
    jobs = find_newest(request.workspace)
    before = request.GET.get("before", "")
    if before:
        jobs = jobs.filter(id__lt=_read_before(before))
    page = list(jobs[: PAGE + 1])
    context = {
        "lines": list_pipelines(request.workspace, page[:PAGE]),
        "older": urlencode({"before": page[PAGE - 1].id}) if len(page) > PAGE else "",
        "before": before,
    }
    return render(request, "training/pipelines/list.html", context)


def _read_before(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError as error:
        fault = FieldFault("before", "is not an id", "a pipeline's id")
        raise InvalidInput("The address is invalid.", faults=[fault]) from error


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def pipeline_new(request: PageRequest) -> HttpResponse:
    """GET shows the form, POST starts the pipeline."""
    form = PipelineForm(request.workspace, request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            job = start_pipeline(by=request.actor, agent=form.cleaned_data["agent"], plan=form.read_plan())
        except InvalidPipeline as error:
            form.add_faults(error.faults)
        else:
            messages.success(request, "The pipeline has started.")
            return redirect("pages:pipeline", request.workspace.slug, job.pk)
    status = 400 if form.is_bound else 200
    return render(request, "training/pipelines/form.html", {"form": form, "command": COMMAND}, status=status)


@polled_part("training/pipelines/_row.html")
def pipeline_row(request: PageRequest, pk: uuid.UUID) -> Followed:
    """One row of the list."""
    job = _get(request, pk)
    (line,) = list_pipelines(request.workspace, [job])
    return Followed({"line": line}, over=job.is_terminal)


@require_safe
@workspace_page()
def pipeline_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """One that was resumed leads to its newest job. htmx polls the part until the job is over."""
    job = _get(request, pk)
    newest = find_pipelines(request.workspace).filter(payload__pipeline=job.payload["pipeline"]).first()
    if newest != job:
        return redirect("pages:pipeline", request.workspace.slug, newest.pk)
    context = _show(request, job)
    if wants_part(request):
        return answer_part(request, "training/pipelines/_status.html", Followed(context, over=job.is_terminal))
    return render(request, "training/pipelines/detail.html", context)


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
        "gguf": stored.find_gguf(version) if version is not None else None,
        "deployment": read_deployment(version) if version is not None else None,
        "state": "stopping" if job.cancel_requested and not job.is_terminal else job.state,
        "cancellable": not job.is_terminal and not job.cancel_requested,
        "resumable": job.state in (JobState.CANCELLED, JobState.DEAD),
    }


@confirmed(back="pages:pipeline")
def pipeline_cancel(request: PageRequest, pk: uuid.UUID) -> Confirmation:
    """GET asks, POST has it stop."""
    job = _get(request, pk)
    return Confirmation(
        title=f"Cancel {job.payload['pipeline']}?",
        explanation="Its current run is cancelled too. You can resume the pipeline later.",
        button="Cancel the pipeline",
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
