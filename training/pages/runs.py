"""Pages of runs: the list, one run with live curves, and a comparison of runs."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import Prefetch, prefetch_related_objects
from django.http import Http404, HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from decisions.models import Agent
from models_registry.models import AliasName, Experiment, ExperimentState, GateVerdict, ModelVersion
from models_registry.versions.gates import read_gate
from training.engine.spec.methods import TRAINING
from training.environments.success import list_domains
from training.evaluation.measures import draw_verdicts, find_reach, measure_evaluation, tone_of
from training.evaluation.paired_runs import pair_runs
from training.evaluation.predictions import draw_reliability, read_predictions
from training.evaluation.suites.shown import list_suites
from training.loops.pipeline.services import find_pipeline_of
from training.models import RunEvent, RunMetric, TrainingRun
from training.pages.comparison import FEWEST, MOST, compare_scores, find_differences, overlay_curves
from training.run_states import RunState
from training.runs.notes import note_run
from training.runs.reached import tell_reached
from training.runs.services import cancel_run
from training.runs.shown.curves import estimate_left, read_curves, read_sparklines, write_curves
from training.runs.shown.lookup import get_run, runs_of
from training.runs.shown.samples import read_samples
from training.supervision.figures import show_figures
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Role
from workspaces.pages.confirmed import Confirmation, confirmed
from workspaces.pages.guard import PageRequest, workspace_page
from workspaces.pages.polled import Followed, polled_part

PAGE = 25
EVENTS = 40
AGENTS = 100
QUIET_EVENTS = ("progress", "metric", "samples")
"""Kinds that the bar, the curves and the table of samples already show."""
EVENT_DETAILS = {"queued": ("by",), "finished": ("steps", "seconds")}
"""Which details of a kind are shown, of others all: the rest stands in other parts of the page."""
EVENT_TONES = {
    "started": "info",
    "running": "info",
    "warning": "warn",
    "stopping": "warn",
    "stopped": "warn",
    "cancelled": "warn",
    "failed": "bad",
    "finished": "ok",
    "succeeded": "ok",
}


def _lines(runs: Sequence[TrainingRun]) -> list[dict[str, Any]]:
    """What the list shows of each run beside the row itself, the gains on one axis."""
    sparks = read_sparklines([run.id for run in runs])
    evaluations = [getattr(run, "evaluation", None) for run in runs]
    gains = [one.differences.get("accuracy") if one is not None else None for one in evaluations]
    reach = find_reach(*gains)
    return [
        {"run": run, "gained": gain, "tone": tone_of(gain), "reach": reach, "left": -reach, "loss": sparks.get(run.id)}
        for run, gain in zip(runs, gains, strict=True)
    ]


@require_safe
@workspace_page()
def run_list(request: PageRequest) -> HttpResponse:
    """Newest first, read by cursor; with `compare`, those runs beside each other. `picked` runs are chosen already, and
    stay so on other pages and under other filters."""
    if "compare" in request.GET:
        return _compare(request)
    runs = runs_of(request).order_by("-id")
    picked = list(runs_of(request).filter(id__in=_read_ids(request, "picked")[:MOST]))
    chosen = {name: request.GET[name] for name in ("agent", "method", "state") if request.GET.get(name)}
    fields = {"agent": "agent__slug", "method": "method", "state": "state"}
    runs = runs.filter(**{fields[name]: value for name, value in chosen.items()})
    if tag := request.GET.get("tag"):
        runs, chosen["tag"] = runs.filter(tags__contains=[tag]), tag
    before = request.GET.get("before", "")
    if before:
        runs = runs.filter(id__lt=as_id(before, "before"))
    page = list(runs[: PAGE + 1])
    carried: dict[str, Any] = chosen | {"picked": [run.id for run in picked]}
    older = urlencode(carried | {"before": page[PAGE - 1].id}, doseq=True) if len(page) > PAGE else ""
    context = {
        "runs": page[:PAGE],
        "lines": _lines(page[:PAGE]),
        "older": older,
        "newest": urlencode(carried, doseq=True),
        "picked": [run.id for run in picked],
        "picked_elsewhere": [run for run in picked if run not in page[:PAGE]],
        "before": before,
        "chosen": chosen,
        "agents": Agent.objects.for_workspace(request.workspace).order_by("name")[:AGENTS],
        "methods": list(TRAINING),
        "states": list(RunState),
    }
    return render(request, "training/runs.html", context)


def as_id(text: str, field: str) -> uuid.UUID:
    """An id out of an address. Raises InvalidInput, which names the field."""
    try:
        return uuid.UUID(text)
    except ValueError as error:
        raise InvalidInput(
            "The address is invalid.", faults=[FieldFault(field, "is not an id", "a run's id")]
        ) from error


def _read_ids(request: PageRequest, name: str) -> list[uuid.UUID]:
    """The parameter may be given more than once, or as a list with commas."""
    asked = [part for value in request.GET.getlist(name) for part in value.split(",") if part]
    return list(dict.fromkeys(as_id(part, name) for part in asked))


def _compare(request: PageRequest) -> HttpResponse:
    wanted = _read_ids(request, "compare")
    if not FEWEST <= len(wanted) <= MOST:
        raise InvalidInput(
            "Select two or three runs to compare.",
            faults=[FieldFault("compare", f"{len(wanted)} chosen", f"{FEWEST} to {MOST} runs")],
        )
    found = {run.id: run for run in runs_of(request).filter(id__in=wanted)}
    if len(found) < len(wanted):
        raise Http404("Run not found.")
    runs = [found[pk] for pk in wanted]
    context = {
        "runs": runs,
        "picked": urlencode({"picked": wanted}, doseq=True),
        "scores": compare_scores(runs),
        "paired": pair_runs(runs),
        "differences": find_differences(runs),
        "curves": overlay_curves(runs),
        "same_rows": len({run.heldout_id for run in runs}) == 1,
    }
    return render(request, "training/compare.html", context)


@polled_part("training/_run_row.html")
def run_row(request: PageRequest, pk: uuid.UUID) -> Followed:
    """One row of the list."""
    run = get_run(request, pk)
    (line,) = _lines([run])
    return Followed({"line": line}, over=run.is_terminal)


def _details_of(event: RunEvent) -> dict[str, Any]:
    names = EVENT_DETAILS.get(event.kind, event.details)
    return {name: event.details[name] for name in names if name in event.details}


def _progress(run: TrainingRun) -> dict[str, Any]:
    events = list(RunEvent.objects.filter(run=run).exclude(kind__in=QUIET_EVENTS).order_by("-at", "-id")[:EVENTS])
    evaluation = getattr(run, "evaluation", None)
    left = estimate_left(run)
    return {
        "run": run,
        "events": [(event, EVENT_TONES.get(event.kind, ""), _details_of(event)) for event in events],
        "evaluation": evaluation,
        "reached": tell_reached(run),
        "measured": measure_evaluation(evaluation) if evaluation is not None else [],
        "domains": list_domains(evaluation) if evaluation is not None else [],
        "cancellable": not run.is_terminal and run.state != RunState.STOPPING,
        "left": left.total_seconds() if left is not None else None,
        "samples": read_samples(run),
        "figures": show_figures(run),
        **(_prospects(run.produced_version) if run.produced_version is not None else {}),
    }


def _prospects(version: ModelVersion) -> dict[str, Any]:
    """What its gates say of the version that a run made, where it is tried or serves, and whether it may be tried."""
    experiments = list(Experiment.objects.filter(variants__version=version, variants__arm="treatment"))
    verdicts = GateVerdict.objects.select_related("against__registered_model")
    prefetch_related_objects([version], Prefetch("gate_verdicts", queryset=verdicts))
    gate = read_gate(version)
    serves = version.aliases.filter(name=AliasName.CHAMPION).exists()
    running = any(experiment.state == ExperimentState.RUNNING for experiment in experiments)
    return {
        "experiments": experiments,
        "gate": gate,
        "verdicts": draw_verdicts(gate),
        "suites": list_suites(version),
        "serves": serves,
        "may_try": not serves and not running and not gate.blocks,
    }


@require_safe
@workspace_page()
def run_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    run = get_run(request, pk)
    curves = RunMetric.objects.filter(run=run).order_by().values_list("name", flat=True).distinct()
    return render(
        request, "training/run.html", {**_progress(run), "curves": list(curves), "pipeline": find_pipeline_of(run)}
    )


@polled_part("training/_run_status.html")
def run_status(request: PageRequest, pk: uuid.UUID) -> Followed:
    run = get_run(request, pk)
    return Followed(_progress(run), over=run.is_terminal)


@require_safe
@workspace_page()
def run_curves(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """JSON for the chart: all points, or with `after` those that came since the answer that said so."""
    given = request.GET.get("after", "0")
    if not given.isdecimal() or len(given) > 18:
        raise InvalidInput(
            "The address is invalid.", faults=[FieldFault("after", "is not a number", "a value from an earlier answer")]
        )
    run = get_run(request, pk)
    return JsonResponse({"terminal": run.is_terminal, "state": run.state, **read_curves(run, after=int(given))})


@require_safe
@workspace_page()
def run_curves_csv(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Every point of the curves, as a file."""
    run = get_run(request, pk)
    response = StreamingHttpResponse(write_curves(run), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="curves-{run.pk}.csv"'
    return response  # type: ignore[return-value]


@require_safe
@workspace_page()
def run_predictions(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """The part with reliability and confusion, read from the attempt's files when somebody looks."""
    run = get_run(request, pk)
    seen = read_predictions(run)
    context = {"run": run, "seen": seen, "reliability": draw_reliability(seen) if seen is not None else None}
    return render(request, "training/_predictions.html", context)


@require_POST
@workspace_page(role=Role.ADMIN)
def run_note(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Replaces tags, written with spaces between them, and notes."""
    run = get_run(request, pk)
    tags = request.POST.get("tags", "").replace(",", " ").split()
    note_run(by=request.actor, run=run, tags=tags, notes=request.POST.get("notes", ""))
    messages.success(request, "The notes are saved.")
    return redirect("pages:run", request.workspace.slug, pk)


@confirmed(back="pages:run")
def run_cancel(request: PageRequest, pk: uuid.UUID) -> Confirmation:
    """GET asks, POST tells the run to stop; it leaves a checkpoint first."""
    run = get_run(request, pk)
    return Confirmation(
        title="Cancel this run?",
        explanation="A running run saves a checkpoint and ends. It creates no model version.",
        button="Cancel the run",
        do=lambda: cancel_run(by=request.actor, run=run),
        done="The run is stopping.",
    )
