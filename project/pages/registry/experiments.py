"""Pages of experiments: the list, one with its evidence, another share, the end."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from models_registry.experiments.evidence import read_comparison
from models_registry.experiments.exploring import count_comparisons, list_explored
from models_registry.experiments.guardrails import list_guardrails
from models_registry.experiments.log import list_looks
from models_registry.experiments.looks import count_exposures
from models_registry.experiments.phases import change_share, find_next_share, list_obstacles
from models_registry.experiments.promotion import stop_experiment
from models_registry.models import (
    Arm,
    Experiment,
    ExperimentState,
    GuardrailMeasure,
    ModelVersion,
)
from models_registry.statistics.exploratory import ALPHA
from models_registry.statistics.sample_ratio import HALT_BAYES_FACTOR, PhaseCount, check_sample_ratio
from models_registry.versions.gates import read_gate
from project.pages.registry.experiment_lines import MARGIN, find_headline, find_tone, select_experiments, show_lines
from project.pages.registry.forms import ShareForm
from project.pages.registry.verdicts import list_conditions, list_entries, write_no_data
from workspaces.errors import InvalidInput
from workspaces.models import Role
from workspaces.pages.confirmed import Confirmation, confirmed, read_reason
from workspaces.pages.guard import PageRequest, workspace_page
from workspaces.pages.polled import Followed, polled_part

EXPERIMENTS = 50
LOOKED_BACK = 6
"""Among so many versions the list looks for candidates."""
CHART_POINTS = 1500
"""A chart is at most this many points wide; more are thinned, the last one stays."""
CHARTED = (
    "units_control",
    "units_treatment",
    "log_e_plus",
    "log_e_minus",
    "plain_log_e_plus",
    "estimate",
    "low",
    "high",
)
SMALLEST_E, LARGEST_E = 1e-6, 1e12


def _get_experiment(request: PageRequest, pk: uuid.UUID) -> Experiment:
    experiment = select_experiments(request).filter(pk=pk).first()
    if experiment is None:
        raise Http404("Experiment not found.")
    return experiment


@require_safe
@workspace_page()
def experiment_list(request: PageRequest) -> HttpResponse:
    """Newest first, the differences on one axis; and versions that passed their gate and were never tried."""
    lines = show_lines(list(select_experiments(request).order_by("-id")[:EXPERIMENTS]))
    passed = ModelVersion.objects.for_workspace(request.workspace).filter(
        gate_verdicts__passed=True, aliases__isnull=True, variants__isnull=True
    )
    newest = passed.select_related("registered_model").prefetch_related("gate_verdicts").order_by("-id").distinct()
    candidates = [one for one in newest[:LOOKED_BACK] if read_gate(one).passed]
    context = {**lines, "most": EXPERIMENTS, "candidates": candidates}
    return render(request, "registry/experiments.html", context)


def _versions(experiment: Experiment) -> dict[str, ModelVersion]:
    return {variant.arm: variant.version for variant in experiment.variants.all()}


def _arms(experiment: Experiment, counts: Sequence[PhaseCount]) -> list[dict[str, Any]]:
    """Control, then treatment: what each was given, what it met, and the mean reward of its matured units."""
    means = read_comparison(experiment).mean_outcomes()
    met = {
        Arm.CONTROL: sum(phase.control for phase in counts),
        Arm.TREATMENT: sum(phase.treatment for phase in counts),
    }
    phases = sorted(experiment.phases.all(), key=lambda phase: phase.number)
    planned = phases[-1].treatment_share if phases else None
    shares = {Arm.CONTROL: 1 - planned if planned is not None else None, Arm.TREATMENT: planned}
    versions = _versions(experiment)
    setups = {variant.arm: variant.setup for variant in experiment.variants.all()}
    return [
        {
            "arm": arm,
            "version": versions.get(arm),
            "setup": setups.get(arm),
            "planned": shares[arm],
            "met": met[arm],
            "share": met[arm] / sum(met.values()) if sum(met.values()) else None,
            "matured": getattr(experiment, f"units_{arm.value}"),
            "mean": means.get(arm),
            "requests": getattr(experiment, f"requests_{arm.value}"),
            "failed": getattr(experiment, f"failed_{arm.value}"),
        }
        for arm in (Arm.CONTROL, Arm.TREATMENT)
    ]


def _ramp(experiment: Experiment) -> dict[str, Any] | None:
    """The share of the ramp's next phase, and what it waits for; None where no phase is to come."""
    phases = sorted(experiment.phases.all(), key=lambda phase: phase.number)
    if experiment.state != ExperimentState.RUNNING or not phases:
        return None
    share = find_next_share(experiment, phases[-1])
    return None if share is None else {"share": share, "waits": list_obstacles(experiment, phases[-1])}


def _explored(experiment: Experiment) -> dict[str, Any]:
    """Secondary measures, and slices by field, each with an axis of its own."""
    found = list_explored(experiment, read_comparison(experiment).explored)
    lines = [
        {"one": one, "control": one.tally.means[0], "treatment": one.tally.means[1], "interval": one.interval}
        for one in found
    ]
    comparisons = count_comparisons(experiment.secondary, experiment.slices)
    return {
        "secondary": [line for line, one in zip(lines, found, strict=True) if one.value is None],
        "slices": [line for line, one in zip(lines, found, strict=True) if one.value is not None],
        "comparisons": comparisons,
        "each_holds": 1 - ALPHA / comparisons if comparisons else None,
    }


def _evidence(experiment: Experiment) -> dict[str, Any]:
    """What the status part shows beside the row itself."""
    reach = max((abs(value) for value in (experiment.low, experiment.high) if value is not None), default=0.0)
    versions = _versions(experiment)
    non_inferior_at = math.log(experiment.guardrail_e)
    counts = count_exposures(experiment)
    ratio = check_sample_ratio(counts)
    needs = list_conditions(experiment, timezone.now())
    return {
        "experiment": experiment,
        "headline": find_headline(experiment),
        "needs": needs,
        "lacking": sum(not need.met for need in needs),
        "treatment": versions.get(Arm.TREATMENT),
        "control": versions.get(Arm.CONTROL),
        "arms": _arms(experiment, counts),
        "ratio": ratio,
        "ratio_at": HALT_BAYES_FACTOR,
        "ratio_share": ratio.log_bayes_factor / math.log(HALT_BAYES_FACTOR),
        "guardrails": [
            {
                "name": GuardrailMeasure(plan.measure).label,
                "plan": plan,
                "evidence": evidence,
                "no_data": "" if evidence["units"] else write_no_data(plan.measure),
                "sound_share": evidence["log_e_non_inferior"] / non_inferior_at,
                "harm_e": harm_e,
                "harm_share": evidence["log_e_harm"] / math.log(harm_e),
            }
            for plan, evidence, harm_e in list_guardrails(experiment)
        ],
        **_explored(experiment),
        "outcomes": experiment.units_control + experiment.units_treatment,
        "phases": sorted(experiment.phases.all(), key=lambda phase: phase.number),
        "tone": find_tone(experiment),
        "left": -(reach * MARGIN or 1.0),
        "reach": reach * MARGIN or 1.0,
        "lane_share": experiment.lane_high - experiment.lane_low,
        "promote_share": experiment.log_e_plus / math.log(experiment.promote_e),
        "rollback_share": experiment.log_e_minus / math.log(experiment.rollback_e),
        "running": experiment.state == ExperimentState.RUNNING,
        "log": list_entries(experiment),
        "ramp": _ramp(experiment),
    }


@require_safe
@workspace_page()
def experiment_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    return render(request, "registry/experiment.html", _evidence(_get_experiment(request, pk)))


@polled_part("registry/_experiment_status.html")
def experiment_status(request: PageRequest, pk: uuid.UUID) -> Followed:
    experiment = _get_experiment(request, pk)
    return Followed(_evidence(experiment), over=experiment.state != ExperimentState.RUNNING)


@require_safe
@workspace_page()
def experiment_evidence(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """JSON for the charts, a point a look and one for now, by units with an outcome: E⁺ and E⁻ with their thresholds,
    the plain contrast's E⁺ where another one decides, and the difference treatment − control with its confidence
    sequence, null below 50 units an arm."""
    experiment = _get_experiment(request, pk)
    points = _list_points(experiment)
    sharp = experiment.conditioned or experiment.rescaled
    return JsonResponse(
        {
            "terminal": experiment.state != ExperimentState.RUNNING,
            "x": [_count_outcomes(one) for one in points],
            "promote_at": experiment.promote_e,
            "rollback_at": experiment.rollback_e,
            "e_plus": [_as_e(one.log_e_plus) for one in points],
            "e_minus": [_as_e(one.log_e_minus) for one in points],
            "plain_e_plus": [_as_e(one.plain_log_e_plus) for one in points] if sharp else [],
            "difference": {
                "mean": [one.estimate for one in points],
                "low": [one.low for one in points],
                "high": [one.high for one in points],
            },
        }
    )


def _list_points(experiment: Experiment) -> list[Any]:
    """The looks with units, of those with the same units the last, at most `CHART_POINTS`; then the experiment as it
    stands. Each has the columns of `CHARTED`."""
    looks = list_looks(experiment).order_by("id").values_list(*CHARTED, named=True)
    last = {_count_outcomes(look): look for look in looks}
    points = [look for units, look in last.items() if 0 < units < _count_outcomes(experiment)]
    kept: list[Any] = points[:: max(1, math.ceil(len(points) / CHART_POINTS))]
    return [*kept, experiment] if _count_outcomes(experiment) else kept


def _count_outcomes(one: Any) -> int:
    units: int = one.units_control + one.units_treatment
    return units


def _as_e(log_e: float) -> float:
    """An e-value for an axis in powers of ten; beyond what it can show it stands at its ends."""
    return math.exp(min(max(log_e, math.log(SMALLEST_E)), math.log(LARGEST_E)))


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def experiment_share(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """GET asks for another share, POST begins a phase with it."""
    experiment = _get_experiment(request, pk)
    back = reverse("pages:experiment", args=[request.workspace.slug, pk])
    phase = max(experiment.phases.all(), key=lambda one: one.number)
    form, status = ShareForm(request.POST if request.method == "POST" else None), 200
    if request.method == "POST":
        status = 400
        if form.is_valid():
            try:
                change_share(by=request.actor, experiment=experiment, **form.cleaned_data)
            except InvalidInput as error:
                for fault in error.faults:
                    form.add_error(fault.field, fault.says)
            else:
                messages.success(request, "The share was changed: a new phase has begun.")
                return redirect(back)
    next_share = find_next_share(experiment, phase)
    context = {"form": form, "experiment": experiment, "phase": phase, "next_share": next_share, "back": back}
    return render(request, "registry/experiment_share.html", context, status=status)


@confirmed(back="pages:experiment")
def experiment_stop(request: PageRequest, pk: uuid.UUID) -> Confirmation:
    """GET asks, POST ends the experiment without a winner."""
    experiment = _get_experiment(request, pk)
    return Confirmation(
        title=f"Stop “{experiment}”?",
        explanation="It ends without a winner and cannot be resumed. The champion serves all units again.",
        button="Stop the experiment",
        do=lambda: stop_experiment(by=request.actor, experiment=experiment, reason=read_reason(request)),
        done="The experiment has stopped. The champion serves all units again.",
        asks_reason=True,
    )
