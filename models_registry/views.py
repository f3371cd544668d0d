"""Pages of the registry: models with their versions, and experiments with their evidence."""

from __future__ import annotations

import math
import uuid
from typing import Any

from django.contrib import messages
from django.db.models import Prefetch, QuerySet
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from models_registry.experiments import stop_experiment
from models_registry.guardrails import list_guardrails
from models_registry.models import (
    AliasName,
    Arm,
    Experiment,
    ExperimentState,
    GuardrailMeasure,
    ModelVersion,
    Observation,
    RegisteredModel,
)
from models_registry.services import move_alias
from workspaces.models import Role
from workspaces.pages import STOP_POLLING, PageRequest, workspace_page

MODELS, VERSIONS, EXPERIMENTS = 50, 20, 50
CHART_POINTS = 1500
"""A chart is at most this many points wide; more are thinned, the last one stays."""


@require_safe
@workspace_page()
def model_list(request: PageRequest) -> HttpResponse:
    """Each model with who serves and its newest versions."""
    newest = ModelVersion.objects.select_related("registered_model", "artifact").prefetch_related(
        "aliases", "gate_verdicts"
    )
    models = (
        RegisteredModel.objects.for_workspace(request.workspace)
        .prefetch_related(
            "aliases__version__registered_model",
            Prefetch("versions", queryset=newest.order_by("-number")[:VERSIONS], to_attr="newest"),
        )
        .order_by("name")[:MODELS]
    )
    return render(request, "models_registry/models.html", {"models": models, "versions_shown": VERSIONS})


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def version_promote(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """GET asks, POST makes the version champion; the audit says who did."""
    version = (
        ModelVersion.objects.for_workspace(request.workspace).select_related("registered_model").filter(pk=pk).first()
    )
    if version is None:
        raise Http404("There is no such version.")
    back = reverse("pages:version", args=[request.workspace.slug, pk])
    if request.method == "POST":
        move_alias(by=request.actor, version=version, name=AliasName.CHAMPION)
        messages.success(request, f"{version} is the champion now.")
        return redirect(back)
    context = {
        "title": f"Promote {version}?",
        "explanation": (
            f"{version} becomes the champion of {version.registered_model.name} and serves every unit that no "
            "experiment holds. The audit records that you decided this by hand."
        ),
        "action": f"Make {version} the champion",
        "back": back,
    }
    return render(request, "partials/confirm.html", context)


def _experiments(request: PageRequest) -> QuerySet[Experiment]:
    found: QuerySet[Experiment] = (
        Experiment.objects.for_workspace(request.workspace)
        .select_related("registered_model")
        .prefetch_related("variants__version__registered_model", "phases")
    )
    return found


def _get_experiment(request: PageRequest, pk: uuid.UUID) -> Experiment:
    experiment = _experiments(request).filter(pk=pk).first()
    if experiment is None:
        raise Http404("There is no such experiment.")
    return experiment


@require_safe
@workspace_page()
def experiment_list(request: PageRequest) -> HttpResponse:
    experiments = _experiments(request).order_by("-id")[:EXPERIMENTS]
    return render(request, "models_registry/experiments.html", {"experiments": experiments, "most": EXPERIMENTS})


def _evidence(experiment: Experiment) -> dict[str, Any]:
    """What the status part shows beside the row itself. Logarithms are natural."""
    reach = max((abs(value) for value in (experiment.low, experiment.high) if value is not None), default=0.0)
    counts = {
        Arm.CONTROL: (experiment.units_control, experiment.requests_control, experiment.failed_control),
        Arm.TREATMENT: (experiment.units_treatment, experiment.requests_treatment, experiment.failed_treatment),
    }
    return {
        "experiment": experiment,
        "arms": [
            (variant, *counts[Arm(variant.arm)]) for variant in sorted(experiment.variants.all(), key=lambda v: v.arm)
        ],
        "guardrails": [
            {
                "name": GuardrailMeasure(plan.measure).label,
                "plan": plan,
                "evidence": evidence,
                "harm_at": math.log(harm_e),
            }
            for plan, evidence, harm_e in list_guardrails(experiment)
        ],
        "non_inferior_at": math.log(experiment.guardrail_e),
        "phases": sorted(experiment.phases.all(), key=lambda phase: phase.number),
        "left": -(reach * 1.15 or 1.0),
        "reach": reach * 1.15 or 1.0,
        "promote_at": math.log(experiment.promote_e),
        "rollback_at": math.log(experiment.rollback_e),
        "promote_share": experiment.log_e_plus / math.log(experiment.promote_e),
        "rollback_share": experiment.log_e_minus / math.log(experiment.rollback_e),
        "running": experiment.state == ExperimentState.RUNNING,
    }


@require_safe
@workspace_page()
def experiment_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    return render(request, "models_registry/experiment.html", _evidence(_get_experiment(request, pk)))


@require_safe
@workspace_page()
def experiment_status(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """The part that htmx polls while units mature."""
    context = _evidence(_get_experiment(request, pk))
    status = 200 if context["running"] else STOP_POLLING
    return render(request, "models_registry/_experiment_status.html", context, status=status)


@require_safe
@workspace_page()
def experiment_evidence(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """JSON for the chart: log E⁺ and log E⁻ (natural) over consumed units, and the thresholds."""
    experiment = _get_experiment(request, pk)
    rows = list(
        Observation.objects.filter(experiment=experiment, log_e_plus__isnull=False, log_e_minus__isnull=False)
        .order_by("position")
        .values_list("position", "log_e_plus", "log_e_minus")
    )
    step = max(1, math.ceil(len(rows) / CHART_POINTS))
    thinned = rows[::step] + ([rows[-1]] if rows and (len(rows) - 1) % step else [])
    return JsonResponse(
        {
            "terminal": experiment.state != ExperimentState.RUNNING,
            "x": [position for position, _, _ in thinned],
            "log_e_plus": [plus for _, plus, _ in thinned],
            "log_e_minus": [minus for _, _, minus in thinned],
            "promote_at": math.log(experiment.promote_e),
            "rollback_at": math.log(experiment.rollback_e),
        }
    )


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def experiment_stop(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """GET asks, POST ends the experiment without a winner."""
    experiment = _get_experiment(request, pk)
    back = reverse("pages:experiment", args=[request.workspace.slug, pk])
    if request.method == "POST":
        stop_experiment(by=request.actor, experiment=experiment, reason=f"stopped by {request.user.email}")
        messages.success(request, "The experiment is stopped; the champion serves everyone again.")
        return redirect(back)
    context = {
        "title": f"Stop “{experiment}”?",
        "explanation": "It ends without a winner and cannot go on later. The champion serves everyone again.",
        "action": "Stop the experiment",
        "back": back,
        "dangerous": True,
    }
    return render(request, "partials/confirm.html", context)
