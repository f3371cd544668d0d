"""Pages of datasets: the list, one dataset, and making one with a preview."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import Count
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe
from django_htmx.http import HttpResponseClientRedirect

from decisions.models import Agent, AgentVersion
from jobs.models import Job, JobState
from training.dataset_preview import preview_datasets, show_examples
from training.defaults import find_defaults
from training.freezing import KIND, start_freezing
from training.models import DatasetSnapshot, TrainingRun
from training.views import as_id
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Role
from workspaces.pages import PageRequest, wants_part, workspace_page
from workspaces.services import record_audit

PAGE = 25
RUNS = 20
AGENTS = 200
VERSIONS = 50
LONGEST_NAME = 200
NEW, ALL = "new", "all"


@require_safe
@workspace_page()
def dataset_list(request: PageRequest) -> HttpResponse:
    """Newest first, read by cursor."""
    found = (
        DatasetSnapshot.objects.for_workspace(request.workspace)
        .select_related("agent")
        .annotate(used=Count("runs"))
        .order_by("-id")
    )
    before = request.GET.get("before", "")
    if before:
        found = found.filter(id__lt=as_id(before, "before"))
    page = list(found[: PAGE + 1])
    older = urlencode({"before": page[PAGE - 1].id}) if len(page) > PAGE else ""
    context = {"datasets": page[:PAGE], "older": older, "before": before}
    return render(request, "training/datasets.html", context)


@require_safe
@workspace_page()
def dataset_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    dataset = (
        DatasetSnapshot.objects.for_workspace(request.workspace)
        .select_related("agent", "artifact", "reward_spec")
        .filter(pk=pk)
        .first()
    )
    if dataset is None:
        raise Http404("Dataset not found.")
    runs = TrainingRun.objects.filter(dataset=dataset) | TrainingRun.objects.filter(heldout=dataset)
    runs |= TrainingRun.objects.filter(replay=dataset)
    context = {
        "dataset": dataset,
        "unused_at": dt.datetime.fromisoformat(dataset.query["unused_at"]) if "unused_at" in dataset.query else None,
        "runs": runs.select_related("produced_version__registered_model").order_by("-id")[:RUNS],
    }
    return render(request, "training/dataset.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def dataset_make(request: PageRequest) -> HttpResponse:
    """GET shows what a dataset would hold, by `agent`, `version` and `which`; POST queues the job that makes it."""
    asked = request.POST if request.method == "POST" else request.GET
    agents = list(Agent.objects.for_workspace(request.workspace).order_by("name")[:AGENTS])
    agent = _find_agent(agents, asked.get("agent", ""))
    if agent is None:
        return render(request, "training/dataset_form.html", {"agent": None})
    versions = list(agent.versions.order_by("-number")[:VERSIONS])
    version = _find_version(versions, asked.get("version", ""))
    which = NEW if asked.get("which") == NEW else ALL
    now = timezone.now()
    unused_at = now if which == NEW else None
    if request.method == "POST":
        name = _read_name(asked.get("name", ""))
        number = version.number if version is not None else None
        job = start_freezing(by=request.actor, agent=agent, name=name, unused_at=unused_at, agent_version=number)
        record_audit(by=request.actor, action="dataset.requested", target=f"job:{job.id}", details={"name": name})
        messages.success(request, "The dataset is queued.")
        return redirect("pages:dataset-making", request.workspace.slug, job.pk)
    preview = preview_datasets([agent], agent_version=version, unused_at=unused_at)[agent.id]
    context: dict[str, Any] = {
        "agents": agents,
        "agent": agent,
        "versions": versions,
        "version": version,
        "which": which,
        "preview": preview,
        "examples": show_examples(preview.examples),
        "spec": agent.reward_specs.first(),
        "heldout": find_defaults(request.workspace, [agent])[agent.id].heldout,
        "name": f"{'New decisions' if which == NEW else 'Decisions'} of {agent.name}, {now:%-d %b %Y %H:%M:%S}"[
            :LONGEST_NAME
        ],
    }
    return render(request, "training/dataset_form.html", context)


def _find_agent(agents: list[Agent], slug: str) -> Agent | None:
    """The first one where none is named; None without any. Raises Http404 for one that is not there."""
    if not slug:
        return agents[0] if agents else None
    found = next((one for one in agents if one.slug == slug), None)
    if found is None:
        raise Http404("Agent not found.")
    return found


def _find_version(versions: list[AgentVersion], number: str) -> AgentVersion | None:
    """None for all. Raises Http404."""
    if not number:
        return None
    found = next((one for one in versions if str(one.number) == number), None)
    if found is None:
        raise Http404("Agent version not found.")
    return found


def _read_name(given: str) -> str:
    name = given.strip()
    if not 1 <= len(name) <= LONGEST_NAME:
        reason = "is empty" if not name else f"has {len(name)} characters"
        raise InvalidInput(
            "The dataset was not made.", faults=[FieldFault("name", reason, f"1 to {LONGEST_NAME} characters")]
        )
    return name


@require_safe
@workspace_page()
def dataset_making(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """How far the job is that makes a dataset, and a run where one was asked for with it; then it leads there. htmx
    polls the part."""
    job = Job.objects.for_workspace(request.workspace).filter(kind=KIND, pk=pk).first()
    if job is None:
        raise Http404("Dataset not found.")
    if job.state == JobState.SUCCEEDED and job.result:
        name = "run" if "run" in job.result else "dataset"
        place = reverse(f"pages:{name}", args=[request.workspace.slug, job.result[name]])
        return HttpResponseClientRedirect(place) if wants_part(request) else redirect(place)
    template = "training/_dataset_making.html" if wants_part(request) else "training/dataset_making.html"
    return render(request, template, {"job": job})
