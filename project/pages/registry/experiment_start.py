"""The page that starts an experiment of a version, or of several things at the same time."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from decisions.agents.current import find_current_version
from decisions.agents.trying import fit_plan, list_triable, start_agent_experiment, start_agent_group
from decisions.models import AgentVersion
from models_registry.experiments.groups import start_group
from models_registry.experiments.outlook import Outlook, estimate_verdict
from models_registry.experiments.plan import ExperimentPlan, check_plan
from models_registry.experiments.services import start_experiment
from models_registry.models import Alias, AliasName, Experiment, ExperimentGroup, ExperimentState, ModelVersion
from models_registry.versions.gates import read_gate
from project.pages.registry.forms import PRESETS, ExperimentForm, find_preset
from project.pages.registry.versions import get_version
from workspaces.errors import Conflict, InvalidInput
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, workspace_page

OFFERED = 12
"""Versions of the model that the form offers beside one."""


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def version_try(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """GET shows a preset and its bounds with the estimate of the time, POST starts the experiment against the champion;
    with `estimate` it only estimates."""
    version = get_version(request, pk)
    status = 200
    preset = find_preset(request.GET.get("preset", "")) if request.method != "POST" else None
    chosen = {"agent_version": request.GET.getlist("agent_version")}
    form = ExperimentForm(initial={**preset.values, **chosen}) if preset is not None else ExperimentForm(request.POST)
    champion = Alias.objects.filter(registered_model=version.registered_model_id, name=AliasName.CHAMPION).first()
    triable = list_triable(version.registered_model)
    form.offer(_list_beside(version, champion), triable)
    outlook = None
    if preset is not None:
        tried = [one for one in triable if str(one.id) in chosen["agent_version"]]
        outlook = _estimate(version, preset.read_plan(), tried)
    elif "estimate" in request.POST:
        form.fields["reason"].required = False
        try:
            if form.is_valid():
                beside = len(form.read_beside())
                outlook = _estimate(version, form.read_plan(), form.read_agent_versions(), beside=beside)
        except InvalidInput as error:
            form.add_faults(error.faults)
        status = 200 if outlook is not None else 400
    elif request.method == "POST":
        status = 400
        valid, plan = form.is_valid(), form.read_plan()
        try:
            if valid:
                started = _start(request, version, form)
                group = isinstance(started, ExperimentGroup)
                messages.success(request, "The experiments have started." if group else "The experiment has started.")
                page = "pages:experiment-group" if group else "pages:experiment"
                return redirect(page, request.workspace.slug, started.pk)
            check_plan(plan)  # so that faults of the plan and of single fields are shown together
        except InvalidInput as error:
            form.add_faults(error.faults)
        except Conflict as error:
            form.add_error(None, error.message)
            status = error.status
    context = {
        "form": form,
        "outlook": outlook,
        "preset": preset,
        "presets": PRESETS,
        "version": version,
        "gate": read_gate(version),
        "champion": champion.version if champion is not None else None,
        "running": Experiment.objects.filter(
            registered_model=version.registered_model_id, state=ExperimentState.RUNNING
        ).first(),
    }
    return render(request, "registry/experiment_form.html", context, status=status)


def _list_beside(version: ModelVersion, champion: Alias | None) -> list[ModelVersion]:
    """Versions of the model that may be tried at the same time as this one, newest first."""
    others = ModelVersion.objects.filter(registered_model=version.registered_model_id, retired_at=None)
    others = others.exclude(id__in=[version.id, *([champion.version_id] if champion is not None else [])])
    found = others.select_related("registered_model", "artifact").order_by("-number")[:OFFERED]
    return [one for one in found if one.is_policy]


def _start(request: PageRequest, version: ModelVersion, form: ExperimentForm) -> Experiment | ExperimentGroup:
    """One experiment, or a group where more than one thing was chosen."""
    by, plan = request.actor, form.read_plan()
    named = {name: form.cleaned_data[name] for name in ("name", "reason")}
    treatments, agent_versions = [version, *form.read_beside()], form.read_agent_versions()
    if not agent_versions and len(treatments) > 1:
        return start_group(by=by, treatments=treatments, plan=plan, **named)
    if not agent_versions:
        return start_experiment(by=by, treatment=version, plan=plan, **named)
    tried = [(one, treatment) for one in agent_versions for treatment in treatments]
    if len(tried) > 1:
        return start_agent_group(by=by, tried=tried, plan=plan, **named)
    return start_agent_experiment(by=by, agent_version=agent_versions[0], treatment=version, plan=plan, **named)


def _estimate(
    version: ModelVersion, plan: ExperimentPlan, agent_versions: Sequence[AgentVersion], *, beside: int = 0
) -> Outlook:
    """Of the plan as the experiments would have it, each in its part of the units that may meet them. beside: how many
    other versions of the model are tried at the same time. Raises InvalidInput."""
    count = (1 + beside) * max(1, len(agent_versions))
    agent = agent_versions[0].agent if agent_versions else None
    current = find_current_version(agent) if agent is not None else None
    fit = fit_plan(current, agent_versions, plan) if current is not None else plan
    strict = replace(fit, promote_e=fit.promote_e * count)
    slug = agent.slug if agent is not None else None
    return estimate_verdict(model=version.registered_model, plan=strict, units_share=1 / count, agent=slug)
