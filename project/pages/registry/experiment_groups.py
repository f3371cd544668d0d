"""Pages of a group of experiments: versions that are tried at the same time, beside each other."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from models_registry.experiments.groups import stop_group
from models_registry.models import ExperimentGroup
from project.pages.registry.experiment_lines import select_experiments, show_lines
from project.pages.registry.verdicts import write_group_headline
from project.pages.registry.versions import read_reason
from workspaces.models import Role
from workspaces.pages.guard import STOP_POLLING, PageRequest, answer_confirmation, workspace_page


def _get_group(request: PageRequest, pk: uuid.UUID) -> ExperimentGroup:
    groups = ExperimentGroup.objects.for_workspace(request.workspace).select_related("registered_model")
    group = groups.filter(pk=pk).first()
    if group is None:
        raise Http404("Group not found.")
    return group


def _group_context(request: PageRequest, group: ExperimentGroup) -> dict[str, Any]:
    experiments = list(select_experiments(request).filter(group=group).order_by("lane_low"))
    return {
        "group": group,
        "headline": write_group_headline(experiments),
        "running": not group.ended_at,
        "group_share": experiments[0].lane_high - experiments[0].lane_low,
        **show_lines(experiments),
    }


@require_safe
@workspace_page()
def group_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Versions that are tried at the same time, their differences from the champion on one axis."""
    return render(request, "registry/experiment_group.html", _group_context(request, _get_group(request, pk)))


@require_safe
@workspace_page()
def group_status(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """The part that htmx polls until the group is over."""
    group = _get_group(request, pk)
    status = STOP_POLLING if group.ended_at else 200
    return render(request, "registry/_group_status.html", _group_context(request, group), status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def group_stop(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """GET asks, POST ends the experiments that still run without a winner."""
    group = _get_group(request, pk)
    return answer_confirmation(
        request,
        title=f"Stop “{group}”?",
        explanation="Its experiments end without a winner and cannot be resumed. The champion serves all units again.",
        action="Stop the experiments",
        back=reverse("pages:experiment-group", args=[request.workspace.slug, pk]),
        do=lambda: stop_group(by=request.actor, group=group, reason=read_reason(request)),
        done="The experiments have stopped. The champion serves all units again.",
        ask_reason=True,
    )
