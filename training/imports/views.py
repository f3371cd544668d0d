"""Pages of imports: the list, the form that uploads a file, its preview, and one import with its progress."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from decisions.queries.first_labels import find_first_labels
from jobs.models import Job, JobState
from training.imports.checking import check_file
from training.imports.forms import FORMS
from training.imports.plan import DECISIONS, LABELLED
from training.imports.services import KIND, cancel_import, find_upload, start_import
from training.imports.uploads import drop_kept
from training.runs.new_decisions import find_readiness
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Role
from workspaces.pages.confirmed import Confirmation, confirmed
from workspaces.pages.guard import PageRequest, workspace_page
from workspaces.pages.polled import Followed, polled_part

PAGE = 25
KINDS = {LABELLED: "Rows for training", DECISIONS: "Decisions"}


def _imports(request: PageRequest) -> QuerySet[Job]:
    found: QuerySet[Job] = Job.objects.for_workspace(request.workspace).filter(kind=KIND)
    return found


@require_safe
@workspace_page()
def import_list(request: PageRequest) -> HttpResponse:
    """Newest first."""
    found = _imports(request).order_by("-id")
    before = request.GET.get("before", "")
    if before:
        try:
            found = found.filter(id__lt=uuid.UUID(before))
        except ValueError as error:
            fault = FieldFault("before", "is not an id", "an import's id")
            raise InvalidInput("The address is invalid.", faults=[fault]) from error
    page = list(found[: PAGE + 1])
    context = {
        "lines": [_line(job) for job in page[:PAGE]],
        "older": urlencode({"before": page[PAGE - 1].id}) if len(page) > PAGE else "",
        "before": before,
    }
    return render(request, "training/imports/list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def import_new(request: PageRequest) -> HttpResponse:
    """The form of one kind; POST checks the file and leads to its preview. Of a refused file nothing is kept."""
    what = request.GET.get("what", LABELLED)
    if what not in FORMS:
        fault = FieldFault("what", "is unknown", ", ".join(FORMS))
        raise InvalidInput("The address is invalid.", faults=[fault])
    form, status = FORMS[what](by=request.actor), 200
    if request.method == "POST":
        form, status = FORMS[what](request.POST, request.FILES, by=request.actor), 400
        if form.is_valid():
            return redirect("pages:import-check", request.workspace.slug, form.upload)
    context = {"form": form, "what": what, "kinds": KINDS}
    return render(request, "training/imports/new.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def import_check(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """What the kept file holds; POST imports it, or with `discard` removes it."""
    found = find_upload(by=request.actor, upload=pk)
    if found is None:
        raise Http404("Upload not found. It was imported, discarded or removed because it was too old.")
    path, plan = found
    if request.method == "POST":
        if "discard" in request.POST:
            drop_kept(pk)
            messages.success(request, "The file was discarded.")
            return redirect("pages:imports", request.workspace.slug)
        job = start_import(by=request.actor, upload=pk, plan=plan, file=path.name)
        return redirect("pages:import", request.workspace.slug, job.pk)
    context = {
        "preview": check_file(by=request.actor, plan=plan, path=path),
        "plan": plan,
        "file": path.name,
        "kind": KINDS[plan.what],
    }
    return render(request, "training/imports/check.html", context)


@require_safe
@workspace_page()
def import_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    return render(request, "training/imports/detail.html", _result(request, _get(request, pk)))


@polled_part("training/imports/_status.html")
def import_status(request: PageRequest, pk: uuid.UUID) -> Followed:
    job = _get(request, pk)
    return Followed(_result(request, job), over=job.is_terminal)


@confirmed(back="pages:import")
def import_cancel(request: PageRequest, pk: uuid.UUID) -> Confirmation:
    """GET asks, POST tells it to stop."""
    job = _get(request, pk)
    return Confirmation(
        title="Cancel the import?",
        explanation="Imported data stays. Import the same file again to resume.",
        button="Cancel the import",
        do=lambda: cancel_import(by=request.actor, job=job),
        done="The import is stopping.",
    )


def _get(request: PageRequest, pk: uuid.UUID) -> Job:
    job = _imports(request).filter(pk=pk).first()
    if job is None:
        raise Http404("Import not found.")
    return job


def _result(request: PageRequest, job: Job) -> dict[str, Any]:
    """With what an admin may do next with imported decisions: train on them, where that starts a run. Without a model,
    their verdicts may suffice for the first one."""
    done = job.state == JobState.SUCCEEDED and job.payload["what"] == DECISIONS and request.role == Role.ADMIN
    agents = find_readiness(request.workspace) if done else []
    first = find_first_labels([one.agent for one in agents if one.defaults.base is None])
    ready = any(one.ready for one in agents) or any(one.ready for one in first.values())
    return _line(job) | {"can_train": ready, "can_calculate": done and not ready}


def _line(job: Job) -> dict[str, Any]:
    state = "stopping" if job.cancel_requested and not job.is_terminal else str(job.state)
    return {"job": job, "state": state, "kind": KINDS[job.payload["what"]], "result": job.result or {}}
