"""Pages of models and their versions: what each was measured at, where it serves, its exports, and promoting one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.db.models import Prefetch, Q
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from decisions.models import Agent
from jobs.errors import AlreadyFinished
from models_registry.backends.services import OURS
from models_registry.errors import BackendRefused
from models_registry.experiments.promotion import promote_version
from models_registry.models import (
    AliasMove,
    AliasName,
    Arm,
    Deployment,
    Experiment,
    ExperimentState,
    GateVerdict,
    ModelVersion,
    RegisteredModel,
)
from models_registry.versions.gates import read_gate
from training.evaluation.measures import draw_verdicts, find_reach, find_scores, measure_evaluation, tone_of
from training.evaluation.suites.shown import list_suites
from training.exports.plans import list_choices, read_choice
from training.exports.services import cancel_export, start_export
from training.lineage.versions import VERSION, read_lineage
from training.models import Evaluation, ExportJob
from training.models.export import LIVE, ExportFormat, ExportState
from training.supervision.model_card import write_card
from workspaces.errors import InvalidInput
from workspaces.models import Role
from workspaces.pages.confirmed import Confirmation, answer_confirmation, read_reason
from workspaces.pages.guard import PageRequest, workspace_page
from workspaces.pages.polled import Followed, polled_part

MODELS, VERSIONS, RELATED = 50, 20, 20
SHOWN_ABOVE = ("Measured", "Gate")
"""Sections of the card that the page has in full."""
AROUND = 0.03
"""Room on either side of the accuracies of one model's versions, which share an axis."""


@require_safe
@workspace_page()
def model_list(request: PageRequest) -> HttpResponse:
    """Each model with who serves, its newest versions, and how accurate they were."""
    newest = (
        ModelVersion.objects.select_related("registered_model", "artifact")
        .prefetch_related(
            "aliases",
            "gate_verdicts",
            Prefetch(
                "evaluations",
                queryset=Evaluation.objects.select_related("dataset").order_by("-id"),
                to_attr="measured",
            ),
        )
        .order_by("-number")[:VERSIONS]
    )
    models = list(
        RegisteredModel.objects.for_workspace(request.workspace)
        .prefetch_related(
            "aliases__version__registered_model",
            "agents",
            Prefetch("versions", queryset=newest, to_attr="newest"),
            Prefetch(
                "experiments",
                queryset=Experiment.objects.filter(state=ExperimentState.RUNNING).prefetch_related("phases"),
                to_attr="running",
            ),
        )
        .order_by("name")[:MODELS]
    )
    found = find_scores([version.id for model in models for version in model.newest])
    context = {"sheets": [_sheet(model, found) for model in models], "models": models, "versions_shown": VERSIONS}
    return render(request, "registry/models.html", context)


def _sheet(model: Any, found: Mapping[uuid.UUID, Mapping[str, Any]]) -> dict[str, Any]:
    """A model's aliases, a line for each version, and the figure of accuracy over versions. `found`: their scores."""
    evaluations = {version.id: version.measured[0] for version in model.newest if version.measured}
    differences = [one.differences.get("accuracy") for one in evaluations.values()]
    reach = find_reach(*differences)
    lines = []
    for version in model.newest:
        evaluation = evaluations.get(version.id)
        difference = evaluation.differences.get("accuracy") if evaluation else None
        scores = found.get(version.id, {})
        lines.append(
            {
                "version": version,
                "gate": read_gate(version),
                "evaluation": evaluation,
                "score": scores.get("accuracy"),
                "reward": scores.get("reward"),
                "difference": difference,
                "tone": tone_of(difference),
            }
        )
    ends = [line["score"][end] for line in lines if line["score"] for end in ("low", "high")]
    return {
        "model": model,
        "floor": max(0.0, min(ends, default=0.0) - AROUND),
        "top": min(1.0, max(ends, default=1.0) + AROUND),
        "aliases": {alias.name: alias.version for alias in model.aliases.all()},
        "lines": lines,
        "reach": reach,
        "left": -reach,
        "chart": draw_versions(model.newest, list(evaluations.values())),
        "experiment": next(iter(model.running), None),
    }


def draw_versions(versions: Sequence[ModelVersion], evaluations: Sequence[Evaluation]) -> dict[str, Any] | None:
    """The figure of held-out accuracy over version numbers, for charts.js; None below two points.

    One series for each held-out dataset: numbers of different rows are not compared. A version that was only ever the
    base of others has the score that it got there.
    """
    numbers = {version.id: version.number for version in versions}
    by_dataset: dict[str, dict[int, dict[str, float]]] = {}
    for one in sorted(evaluations, key=lambda one: one.id):
        points = by_dataset.setdefault(one.dataset.name, {})
        for model, version in (("base", one.against_id), ("trained", one.version_id)):
            score = one.scores.get(model, {}).get("accuracy")
            if score is None or version not in numbers or (model == "base" and numbers[version] in points):
                continue
            points[numbers[version]] = score
    places = sorted({number for points in by_dataset.values() for number in points})
    if len(places) < 2:
        return None
    return {
        "title": "Held-out accuracy, %",
        "height": 180,
        "x": {"label": "version", "whole": True, "values": places},
        "y": {"decimals": 1, "unit": "%"},
        "series": [
            {
                "label": name,
                "kind": "dots",
                **{
                    key: [points[place][end] * 100 if place in points else None for place in places]
                    for key, end in (("values", "mean"), ("low", "low"), ("high", "high"))
                },
            }
            for name, points in by_dataset.items()
        ],
    }


def get_version(request: PageRequest, pk: uuid.UUID) -> ModelVersion:
    version: ModelVersion | None = (
        ModelVersion.objects.for_workspace(request.workspace)
        .select_related("registered_model", "artifact", "base__registered_model", "parent__registered_model")
        .prefetch_related(
            "aliases",
            Prefetch(
                "gate_verdicts",
                queryset=GateVerdict.objects.select_related("against__registered_model"),
            ),
        )
        .filter(pk=pk)
        .first()
    )
    if version is None:
        raise Http404("Version not found.")
    return version


def _exports(version: ModelVersion) -> dict[str, Any]:
    exports = list(ExportJob.objects.filter(version=version).select_related("artifact", "job").order_by("-id"))
    live = {export.choice for export in exports if export.state in LIVE}
    choices = [choice for choice in list_choices(version) if choice.value not in live]
    return {
        "version": version,
        "exports": exports,
        "exporting": any(export.state == ExportState.QUEUED for export in exports),
        "choices": choices,
        "missing": list(dict.fromkeys(choice.why_not for choice in choices if choice.why_not)),
    }


@require_safe
@workspace_page()
def version_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    version = get_version(request, pk)
    evaluation = Evaluation.objects.filter(version=version).select_related("dataset", "run").order_by("-id").first()
    experiments = list(
        Experiment.objects.filter(variants__version=version)
        .prefetch_related("variants", "phases")
        .order_by("-id")
        .distinct()[:RELATED]
    )
    gate = read_gate(version)
    aliases = sorted(alias.name for alias in version.aliases.all())
    moves = list(
        AliasMove.objects.filter(Q(after=version) | Q(before=version))
        .select_related("before__registered_model", "after__registered_model")
        .order_by("-id")[:RELATED]
    )
    context = {
        **_exports(version),
        "evaluation": evaluation,
        "measured": measure_evaluation(evaluation) if evaluation is not None else [],
        "lineage": read_lineage(request.workspace, VERSION, version.id),
        "aliases": aliases,
        "held": [_hold(name, version, moves) for name in aliases],
        "moves": moves,
        "deployments": list(Deployment.objects.filter(version=version).select_related("backend")),
        "state": "retired" if version.retired_at else "",
        "agents": list(Agent.objects.filter(registered_model=version.registered_model_id).order_by("name")),
        "serving": _find_traffic(version, aliases, experiments),
        "experiments": experiments,
        "card": [section for section in write_card(version) if section.title not in SHOWN_ABOVE],
        "gate": gate,
        "verdicts": draw_verdicts(gate),
        "suites": list_suites(version),
    }
    return render(request, "registry/version.html", context)


def _hold(name: str, version: ModelVersion, moves: Sequence[AliasMove]) -> dict[str, Any]:
    """An alias that the version has: the move that brought it, and whether that can be taken back."""
    came = next((move for move in moves if move.name == name and move.after_id == version.id), None)
    fixed = name == AliasName.CHALLENGER or (name == AliasName.CHAMPION and (came is None or came.before is None))
    return {"name": name, "came": came, "can_revert": came is not None and not fixed, "free": name not in OURS}


def _find_traffic(
    version: ModelVersion, aliases: Sequence[str], experiments: Sequence[Experiment]
) -> dict[str, Any] | None:
    """Which share of the model's units the version answers now, and in which experiment; None when none."""
    for experiment in experiments:
        if experiment.state != ExperimentState.RUNNING:
            continue
        phase = next((one for one in experiment.phases.all() if one.ended_at is None), None)
        arms = [one.arm for one in experiment.variants.all() if one.version_id == version.id]
        if phase is not None and len(arms) == 1:
            share = phase.treatment_share if arms == [Arm.TREATMENT] else 1 - phase.treatment_share
            return {"share": share, "experiment": experiment, "arm": arms[0]}
        if phase is not None:  # of an experiment on versions of an agent
            return {"share": 1.0, "experiment": experiment, "arm": "both arms"}
    return {"share": 1.0, "experiment": None, "arm": ""} if "champion" in aliases else None


@polled_part("registry/_exports.html")
def version_exports(request: PageRequest, pk: uuid.UUID) -> Followed:
    context = _exports(get_version(request, pk))
    return Followed(context, over=not context["exporting"])


@require_POST
@workspace_page(role=Role.ADMIN)
def version_export(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    format, options = read_choice(request.POST.get("as", ExportFormat.MERGED))
    try:
        export = start_export(by=request.actor, version=get_version(request, pk), format=format, **options)
    except InvalidInput as refused:
        messages.error(request, " ".join(f"{fault.reason}." for fault in refused.faults))
    else:
        messages.success(request, f"The export as {export.title} is queued.")
    return redirect("pages:version", request.workspace.slug, pk)


@require_POST
@workspace_page(role=Role.ADMIN)
def export_cancel(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Cancels one that is queued or being made."""
    export = ExportJob.objects.for_workspace(request.workspace).filter(pk=pk).first()
    if export is None:
        raise Http404("Export not found.")
    try:
        cancel_export(by=request.actor, export=export)
    except AlreadyFinished as over:
        messages.error(request, over.message)
    else:
        messages.success(request, f"The export as {export.title} is cancelled.")
    return redirect("pages:version", request.workspace.slug, export.version_id)


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def version_promote(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """GET asks, POST makes the version champion; the audit says who did."""
    version = get_version(request, pk)
    back = reverse("pages:version", args=[request.workspace.slug, pk])
    try:
        confirmation = Confirmation(
            title=f"Promote {version}?",
            explanation=(
                f"{version} becomes the champion of {version.registered_model.name} and serves every unit outside "
                "an experiment. A running experiment of the model ends. The audit log records who promoted it."
            ),
            button=f"Promote {version}",
            do=lambda: promote_version(by=request.actor, version=version, reason=read_reason(request)),
            done=f"{version} is now the champion.",
            asks_reason=True,
            dangerous=False,
        )
        return answer_confirmation(request, confirmation, back=back)
    except BackendRefused as error:
        messages.error(request, f"{version} was not promoted: {error.message}")
        return redirect(back)
