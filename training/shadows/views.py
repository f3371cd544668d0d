"""Pages of shadows: the list, one shadow with its figures, starting one and stopping it."""

from __future__ import annotations

import uuid
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from decisions.models import Agent, Shadow, ShadowPoint, ShadowState, ShadowThen
from models_registry.experiments.log import LONGEST_REASON
from models_registry.models import NO_POLICIES, AliasName, ModelVersion, VersionState
from training.shadows.services import ShadowPlan, start_shadow, stop_shadow
from training.shadows.shown import draw_charts, list_disagreements, list_failures, write_sentence
from workspaces.errors import Conflict, InvalidInput
from workspaces.models import Role
from workspaces.pages.confirmed import Confirmation, confirmed
from workspaces.pages.guard import PageRequest, workspace_page

MOST = 50
POINTS = 500


class ShadowForm(forms.Form):
    """A candidate of one agent's model, and how far it is tried."""

    agent = forms.ModelChoiceField(Agent.objects.none(), empty_label="Choose an agent", to_field_name="slug")
    version = forms.ModelChoiceField(
        ModelVersion.objects.none(),
        label="Candidate",
        empty_label="Choose a version",
        help_text="A version of the agent's model that does not decide yet.",
    )
    share = forms.FloatField(
        initial=1, label="Share of decisions", help_text="Above 0, up to 1. 0.2 asks about every fifth decision."
    )
    min_decisions = forms.IntegerField(
        initial=500, label="Minimum decisions", help_text="Decisions with a reward before the evidence is judged."
    )
    then = forms.ChoiceField(
        choices=ShadowThen.choices,
        label="When the evidence suffices",
        help_text="A canary is an experiment that gives the candidate 5% of the units, then 25% and 50%.",
    )
    reason = forms.CharField(max_length=LONGEST_REASON, help_text="Why this version is tried, in a sentence.")

    def __init__(self, request: PageRequest, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        agents, versions = self.fields["agent"], self.fields["version"]
        assert isinstance(agents, forms.ModelChoiceField) and isinstance(versions, forms.ModelChoiceField)
        agents.queryset = Agent.objects.for_workspace(request.workspace).order_by("name")
        found = ModelVersion.objects.for_workspace(request.workspace).filter(
            state=VersionState.READY, registered_model__agents__isnull=False
        )
        found = found.exclude(aliases__name=AliasName.CHAMPION).exclude(artifact__kind__in=NO_POLICIES)
        versions.queryset = found.select_related("registered_model").order_by("-id").distinct()
        for one in self.fields.values():
            one.widget.attrs.setdefault("autocomplete", "off")


def _shadows(request: PageRequest) -> QuerySet[Shadow]:
    found: QuerySet[Shadow] = Shadow.objects.for_workspace(request.workspace).select_related(
        "agent", "version__registered_model", "experiment"
    )
    return found


def _get_shadow(request: PageRequest, pk: uuid.UUID) -> Shadow:
    shadow = _shadows(request).filter(pk=pk).first()
    if shadow is None:
        raise Http404("Shadow not found.")
    return shadow


@require_safe
@workspace_page()
def shadow_list(request: PageRequest) -> HttpResponse:
    """Newest first, each with its last point."""
    shadows = list(_shadows(request)[:MOST])
    points = ShadowPoint.objects.filter(shadow__in=shadows).order_by("shadow_id", "-id").distinct("shadow_id")
    newest = {point.shadow_id: point for point in points}
    lines = [
        {
            "shadow": one,
            "point": (point := newest.get(one.id)),
            "headline": write_sentence(one, [point] if point else []),
        }
        for one in shadows
    ]
    return render(request, "training/shadows/list.html", {"lines": lines})


@require_safe
@workspace_page()
def shadow_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    shadow = _get_shadow(request, pk)
    points = list(shadow.points.order_by("-id")[:POINTS])
    context = {
        "shadow": shadow,
        "running": shadow.state == ShadowState.RUNNING,
        "headline": write_sentence(shadow, points[:1]),
        "point": points[0] if points else None,
        "chart": draw_charts(points[::-1]) if any(point.agreement is not None for point in points) else None,
        "disagreements": list_disagreements(shadow),
        "failures": list_failures(shadow) if shadow.failed else [],
    }
    return render(request, "training/shadows/detail.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def shadow_start(request: PageRequest) -> HttpResponse:
    """GET shows the form, with ?version= filled in; POST starts the shadow."""
    status = 200
    form = ShadowForm(request, request.POST or None, initial=_first_values(request))
    if request.method == "POST":
        status = 400
        if form.is_valid():
            given = form.cleaned_data
            plan = ShadowPlan(given["share"], given["min_decisions"], given["then"])
            try:
                shadow = start_shadow(
                    by=request.actor, agent=given["agent"], version=given["version"], plan=plan, reason=given["reason"]
                )
            except InvalidInput as error:
                for fault in error.faults:
                    form.add_error(fault.field if fault.field in form.fields else None, f"{fault.reason}.")
            except Conflict as error:
                form.add_error(None, error.message)
                status = error.status
            else:
                messages.success(request, "The shadow has started. No user notices it.")
                return redirect("pages:shadow", request.workspace.slug, shadow.pk)
    return render(request, "training/shadows/form.html", {"form": form}, status=status)


def _first_values(request: PageRequest) -> dict[str, Any]:
    """What a link to the form says, as far as it names something of the workspace."""
    try:
        asked = uuid.UUID(request.GET.get("version", ""))
    except ValueError:
        return {}
    version = ModelVersion.objects.for_workspace(request.workspace).filter(pk=asked).first()
    if version is None:
        return {}
    agent = Agent.objects.filter(registered_model=version.registered_model_id).order_by("name").first()
    return {"version": version.pk, "agent": agent.slug if agent is not None else None}


@confirmed(back="pages:shadow")
def shadow_stop(request: PageRequest, pk: uuid.UUID) -> Confirmation:
    """GET asks, POST stops it."""
    shadow = _get_shadow(request, pk)
    return Confirmation(
        title=f"Stop the shadow of {shadow.version}?",
        explanation="It is asked about no more decisions and cannot be resumed. What it found stays.",
        button="Stop the shadow",
        do=lambda: stop_shadow(by=request.actor, shadow=shadow, reason=request.POST.get("reason", "")),
        done="The shadow has stopped.",
        asks_reason=True,
    )
