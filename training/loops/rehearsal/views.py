"""Pages of rehearsals: the list, one with its report or progress, and the form that starts one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs.models import JobState
from models_registry.backends.model_server import is_reachable
from models_registry.models import ModelVersion
from training.evaluation.measures import find_reach, tone_of
from training.loops.rehearsal.estimate import guess_seconds
from training.loops.rehearsal.forms import RehearsalForm
from training.loops.rehearsal.loop import EVERY_LABEL, SEED_LABELS, round_name
from training.loops.rehearsal.report import describe_kinds, report_all
from training.loops.rehearsal.services import cancel_rehearsal, may_start, resume_rehearsal, start_rehearsal
from training.loops.rehearsal.shown import (
    accuracy_axis,
    describe_log,
    describe_plain,
    describe_verdict,
    draw_learning,
    draw_rounds,
    list_left_out,
    list_parts,
    list_settings,
    place_span,
)
from training.models import Rehearsal, TrainingRun
from training.run_states import RunState
from training.runs.architectures import tell_unchecked
from training.runs.candidates import kind_of, order_runs
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Role
from workspaces.pages.confirmed import Confirmation, confirmed
from workspaces.pages.guard import PageRequest, workspace_page
from workspaces.pages.polled import Followed, answer_part

PAGE = 25
COMMAND = ".venv/bin/python manage.py rehearse FILE --text-field TEXT --label-field LABEL"


def _state(rehearsal: Rehearsal) -> str:
    """In the words of badges; "stopping" while its job has been told to end."""
    job = rehearsal.job
    if rehearsal.report is not None:
        return "succeeded"
    if job is None:
        return "queued"
    return "stopping" if job.cancel_requested and not job.is_terminal else str(job.state)


def _get(request: PageRequest, pk: uuid.UUID) -> Rehearsal:
    found = Rehearsal.objects.for_workspace(request.workspace).select_related("workspace", "job").filter(pk=pk).first()
    if found is None:
        raise Http404("Rehearsal not found.")
    rehearsal: Rehearsal = found
    return rehearsal


@require_safe
@workspace_page()
def rehearsal_list(request: PageRequest) -> HttpResponse:
    """Newest first, of every workspace that the person is in: each rehearsal has one of its own."""
    return render(request, "training/rehearsals/list.html", _listed(request))


def _listed(request: PageRequest) -> dict[str, Any]:
    found = Rehearsal.objects.filter(workspace__memberships__user=request.user).select_related("workspace", "job")
    before = request.GET.get("before", "")
    if before:
        try:
            found = found.filter(id__lt=uuid.UUID(before))
        except ValueError as error:
            fault = FieldFault("before", "is not an id", "a rehearsal's id")
            raise InvalidInput("The address is invalid.", faults=[fault]) from error
    page = list(found.order_by("-id")[: PAGE + 1])
    return {
        "lines": [_line(one) for one in page[:PAGE]],
        "older": urlencode({"before": page[PAGE - 1].id}) if len(page) > PAGE else "",
        "before": before,
        "command": COMMAND,
    }


def _line(rehearsal: Rehearsal) -> dict[str, Any]:
    report = rehearsal.report
    return {
        "rehearsal": rehearsal,
        "state": _state(rehearsal),
        "report": report,
        "span": place_span(report) if report else None,
        "done": len(rehearsal.results),
    }


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def rehearsal_start(request: PageRequest) -> HttpResponse:
    """The list with the form; POST starts what it asks for, or takes up the same rehearsal if there was one. With
    `check` it only says how long that would take."""
    form, status = RehearsalForm(), 200
    if request.method == "POST" and "check" in request.POST:
        form = RehearsalForm(request.POST, request.FILES)
        valid = form.is_valid()
        needs = {
            "guess": guess_seconds(form.plan, form.source) if valid else None,
            "valid": valid,
            "unchecked": tell_unchecked(form.plan.base) if valid else "",
        }
        return render(request, "training/rehearsals/_needs.html", needs)
    if request.method == "POST":
        form, status = RehearsalForm(request.POST, request.FILES), 400
        if form.is_valid() and not is_reachable():
            form.add_error(None, "A rehearsal needs the model server, which does not answer.")
            status = 503
        if form.is_valid():
            rehearsal = start_rehearsal(
                source=form.source,
                plan=form.plan,
                text_field=form.cleaned_data["text_field"],
                label_field=form.cleaned_data["label_field"],
                owners=[request.user],
                requested_by=request.actor.name,
                again=False,
            )
            if rehearsal.report is not None:
                messages.info(request, "These rows were already rehearsed with these settings. This is the result.")
            else:
                messages.success(request, f"{rehearsal.name} has started in a separate workspace.")
            return redirect("pages:rehearsal", rehearsal.workspace.slug, rehearsal.pk)
    return render(request, "training/rehearsals/list.html", {**_listed(request), "form": form}, status=status)


@require_safe
@workspace_page()
def rehearsal_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    rehearsal = _get(request, pk)
    return render(request, "training/rehearsals/detail.html", {**_progress(rehearsal), **_report(rehearsal)})


@require_safe
@workspace_page()
def rehearsal_status(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """The part that htmx polls until the rehearsal is over; a seed that was finished meanwhile needs the whole page."""
    rehearsal = _get(request, pk)
    context = _progress(rehearsal)
    over = not context["under_way"]
    response = answer_part(request, "training/rehearsals/_status.html", Followed(context, over=over))
    if rehearsal.report is not None or request.GET.get("done") not in (None, str(context["done"])):
        response["HX-Refresh"] = "true"
    return response


def _progress(rehearsal: Rehearsal) -> dict[str, Any]:
    """State, and what the seed that is being done has come to so far."""
    done, under_way = len(rehearsal.results), rehearsal.report is None and not may_start(rehearsal)
    return {
        "rehearsal": rehearsal,
        "job": rehearsal.job,
        "state": _state(rehearsal),
        "done": done,
        "under_way": under_way,
        "may_start": may_start(rehearsal),
        "cancellable": under_way and rehearsal.job is not None and not rehearsal.job.cancel_requested,
        "dead": rehearsal.job is not None and rehearsal.job.state == JobState.DEAD,
        "stages": _stages(rehearsal, done) if rehearsal.report is None else [],
    }


def _stages(rehearsal: Rehearsal, seed: int) -> list[dict[str, Any]]:
    """The runs of one seed in the order in which they are made, with what they gave on held-out rows."""
    names = {
        SEED_LABELS: "Base",
        **{round_name(number): f"Round {number}" for number in range(1, rehearsal.plan["rounds"] + 1)},
        EVERY_LABEL: "Every label",
    }
    runs = (
        TrainingRun.objects.for_workspace(rehearsal.workspace)
        .filter(agent__slug=f"seed-{seed}", dataset__name__in=names)
        .exclude(state=RunState.CANCELLED)
        .select_related("dataset", "evaluation", "base_version__artifact")
        .order_by("id")
    )
    stages = []
    for name, title in names.items():
        for run in order_runs([run for run in runs if run.dataset.name == name]):
            evaluation = getattr(run, "evaluation", None)
            differences = evaluation.differences if evaluation and name not in (SEED_LABELS, EVERY_LABEL) else {}
            stages.append(
                {
                    "title": f"{title}: {kind_of(run).says}",
                    "run": run,
                    "accuracy": evaluation.scores.get("trained", {}).get("accuracy") if evaluation else None,
                    "difference": differences.get("accuracy"),
                }
            )
    return stages


def _report(rehearsal: Rehearsal) -> dict[str, Any]:
    """What the page shows of the seeds that are done; nothing before the first one."""
    told: dict[str, Any] = {
        "about": rehearsal.about,
        "left_out": list_left_out(rehearsal.about),
        "settings_told": list_settings(rehearsal.plan),
        "planned": rehearsal.plan["seeds"],
    }
    report = rehearsal.report or (
        report_all(rehearsal.about, rehearsal.plan, rehearsal.results) if rehearsal.results else None
    )
    if report is None:
        return told
    seeds = report["seeds"]
    differences = [seed["difference"] for seed in seeds]
    reach = find_reach(*differences)
    versions = _versions(rehearsal, seeds)
    return {
        **told,
        "report": report,
        "verdict": describe_verdict(report, complete=rehearsal.report is not None),
        "plain": describe_plain(report),
        "kinds": describe_kinds(report),
        "figures": {"figures": [draw_learning(report), draw_rounds(report)]},
        "axis": accuracy_axis(report),
        "reach": reach,
        "left": -reach,
        "seeds": [
            {
                "seed": seed,
                "tone": tone_of(seed["difference"]),
                "base": versions.get(seed["versions"]["base"]),
                "final": versions.get(seed["versions"]["final"]),
                "log": describe_log(seed),
            }
            for seed in seeds
        ],
        "parts": list_parts(rehearsal.about, seeds[0]["rows"]),
    }


def _versions(rehearsal: Rehearsal, seeds: list[Mapping[str, Any]]) -> dict[str, ModelVersion]:
    """The versions that the report names, by their names."""
    named = {name for seed in seeds for name in seed["versions"].values()}
    numbers = {int(name.rpartition(":")[2]) for name in named}
    found = ModelVersion.objects.for_workspace(rehearsal.workspace).filter(number__in=numbers)
    return {str(version): version for version in found.select_related("registered_model") if str(version) in named}


@confirmed(back="pages:rehearsal")
def rehearsal_cancel(request: PageRequest, pk: uuid.UUID) -> Confirmation:
    """GET asks, POST tells it to stop."""
    rehearsal = _get(request, pk)
    return Confirmation(
        title=f"Cancel the {rehearsal.name[:1].lower()}{rehearsal.name[1:]}?",
        explanation="Its current run is cancelled too. You can resume the rehearsal later.",
        button="Cancel the rehearsal",
        do=lambda: cancel_rehearsal(by=request.actor, rehearsal=rehearsal),
        done="The rehearsal is stopping.",
    )


@require_POST
@workspace_page(role=Role.ADMIN)
def rehearsal_resume(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Goes on with one that was cancelled or died."""
    resume_rehearsal(by=request.actor, rehearsal=_get(request, pk))
    messages.success(request, "The rehearsal has resumed.")
    return redirect("pages:rehearsal", request.workspace.slug, pk)
