"""Pages of the training floor: runs with live curves, and a model version with its evaluations and exports."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from models_registry.models import ModelVersion
from training.exports import start_export
from training.models import Evaluation, ExportJob, RunEvent, RunMetric, TrainingRun
from training.models.export import ExportState
from training.run_states import RunState
from training.runs import cancel_run
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Role
from workspaces.pages import STOP_POLLING, PageRequest, workspace_page

PAGE = 25
EVENTS = 40
CURVE_POINTS = 1000
QUIET_EVENTS = ("progress", "metric")
"""Kinds that the bar and the curves already show."""
MEASURES = (
    ("accuracy", "Accuracy", "share"),
    ("reward", "Reward", "number"),
    ("valid_share", "Valid actions", "share"),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One line of an evaluation: {mean, low, high, n, clusters} of base, trained and their paired difference."""

    title: str
    kind: str
    base: dict[str, Any] | None
    trained: dict[str, Any] | None
    difference: dict[str, Any] | None
    reach: float

    @property
    def left(self) -> float:
        return -self.reach


def measure_evaluation(evaluation: Evaluation) -> list[Measured]:
    """The measures that the evaluation holds, in the order of MEASURES. `reach` scales the difference's axis."""
    lines = []
    for name, title, kind in MEASURES:
        base = evaluation.scores.get("base", {}).get(name)
        trained = evaluation.scores.get("trained", {}).get(name)
        difference = evaluation.differences.get(name)
        if base is None and trained is None:
            continue
        ends = [abs(difference[end]) for end in ("low", "high")] if difference else [1.0]
        lines.append(Measured(title, kind, base, trained, difference, max(ends) * 1.15 or 1.0))
    return lines


def _runs(request: PageRequest) -> QuerySet[TrainingRun]:
    found: QuerySet[TrainingRun] = TrainingRun.objects.for_workspace(request.workspace).select_related(
        "agent",
        "dataset",
        "replay",
        "heldout",
        "base_version__registered_model",
        "produced_version__registered_model",
        "evaluation",
    )
    return found


def _get_run(request: PageRequest, pk: uuid.UUID) -> TrainingRun:
    run = _runs(request).filter(pk=pk).first()
    if run is None:
        raise Http404("There is no such run.")
    return run


@require_safe
@workspace_page()
def run_list(request: PageRequest) -> HttpResponse:
    """Newest first, read by cursor."""
    runs = _runs(request).order_by("-id")
    before = request.GET.get("before", "")
    if before:
        try:
            runs = runs.filter(id__lt=uuid.UUID(before))
        except ValueError as error:
            raise InvalidInput(
                "The place in the list is not usable.", faults=[FieldFault("before", "is not an id", "a run's id")]
            ) from error
    page = list(runs[: PAGE + 1])
    older = f"before={page[PAGE - 1].id}" if len(page) > PAGE else ""
    context = {"runs": page[:PAGE], "older": older, "before": before}
    return render(request, "training/runs.html", context)


def _progress(run: TrainingRun) -> dict[str, Any]:
    events = RunEvent.objects.filter(run=run).exclude(kind__in=QUIET_EVENTS).order_by("-at", "-id")[:EVENTS]
    evaluation = getattr(run, "evaluation", None)
    return {
        "run": run,
        "events": events,
        "evaluation": evaluation,
        "measured": measure_evaluation(evaluation) if evaluation is not None else [],
        "cancellable": not run.is_terminal and run.state != RunState.STOPPING,
    }


@require_safe
@workspace_page()
def run_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    return render(request, "training/run.html", _progress(_get_run(request, pk)))


@require_safe
@workspace_page()
def run_status(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """The part that htmx polls until the run is over."""
    run = _get_run(request, pk)
    return render(request, "training/_run_status.html", _progress(run), status=STOP_POLLING if run.is_terminal else 200)


@require_safe
@workspace_page()
def run_curves(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """JSON for the chart: each curve's steps and values; of a resumed run, the newest attempt's value of a step."""
    run = _get_run(request, pk)
    curves: dict[str, dict[int, float]] = {}
    rows = RunMetric.objects.filter(run=run).order_by("attempt", "step").values_list("name", "step", "value")
    for name, step, value in rows:
        curves.setdefault(name, {})[step] = value
    return JsonResponse(
        {
            "terminal": run.is_terminal,
            "state": run.state,
            "curves": [_thinned(name, curves[name]) for name in sorted(curves)],
        }
    )


def _thinned(name: str, values: dict[int, float]) -> dict[str, Any]:
    steps = sorted(values)
    every = -(-len(steps) // CURVE_POINTS) or 1
    kept = steps[::every]
    if steps and kept[-1] != steps[-1]:
        kept.append(steps[-1])
    return {"name": name, "x": kept, "y": [values[step] for step in kept]}


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def run_cancel(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """GET asks, POST tells the run to stop; it leaves a checkpoint first."""
    run = _get_run(request, pk)
    back = reverse("pages:run", args=[request.workspace.slug, pk])
    if request.method == "POST":
        cancel_run(by=request.actor, run=run)
        messages.success(request, "The run has been told to stop.")
        return redirect(back)
    context = {
        "title": f"Cancel the {run}?",
        "explanation": "A run that works leaves a checkpoint and ends; no model version comes of it.",
        "action": "Cancel the run",
        "back": back,
        "dangerous": True,
    }
    return render(request, "partials/confirm.html", context)


def _get_version(request: PageRequest, pk: uuid.UUID) -> ModelVersion:
    version: ModelVersion | None = (
        ModelVersion.objects.for_workspace(request.workspace)
        .select_related("registered_model", "artifact", "base__registered_model", "parent__registered_model")
        .prefetch_related("aliases", "gate_verdicts__against__registered_model")
        .filter(pk=pk)
        .first()
    )
    if version is None:
        raise Http404("There is no such version.")
    return version


def _exports(version: ModelVersion) -> dict[str, Any]:
    exports = list(ExportJob.objects.filter(version=version).select_related("artifact", "job").order_by("-id"))
    return {
        "version": version,
        "exports": exports,
        "exporting": any(export.state == ExportState.QUEUED for export in exports),
        "may_export": all(export.state == ExportState.FAILED for export in exports),
    }


@require_safe
@workspace_page()
def version_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    version = _get_version(request, pk)
    evaluation = Evaluation.objects.filter(version=version).select_related("dataset", "run").order_by("-id").first()
    context = {
        **_exports(version),
        "evaluation": evaluation,
        "measured": measure_evaluation(evaluation) if evaluation is not None else [],
        "run": TrainingRun.objects.filter(produced_version=version).select_related("agent").first(),
        "aliases": [alias.name for alias in version.aliases.all()],
    }
    return render(request, "training/version.html", context)


@require_safe
@workspace_page()
def version_exports(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """The part that htmx polls while an export is under way."""
    context = _exports(_get_version(request, pk))
    return render(request, "training/_exports.html", context, status=200 if context["exporting"] else STOP_POLLING)


@require_POST
@workspace_page(role=Role.ADMIN)
def version_export(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    start_export(by=request.actor, version=_get_version(request, pk))
    messages.success(request, "The export is in the queue.")
    return redirect("pages:version", request.workspace.slug, pk)
