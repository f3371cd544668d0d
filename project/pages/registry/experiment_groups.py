"""Pages of a group of experiments: versions that are tried at the same time, beside each other."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from models_registry.experiments.groups import stop_group
from models_registry.models import ExperimentGroup
from project.pages.registry.experiment_lines import select_experiments, show_lines
from project.pages.registry.verdicts import write_group_headline
from workspaces.pages.confirmed import Confirmation, confirmed, read_reason
from workspaces.pages.guard import PageRequest, workspace_page
from workspaces.pages.polled import Followed, polled_part


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


@polled_part("registry/_group_status.html")
def group_status(request: PageRequest, pk: uuid.UUID) -> Followed:
    group = _get_group(request, pk)
    return Followed(_group_context(request, group), over=group.ended_at is not None)


@confirmed(back="pages:experiment-group")
def group_stop(request: PageRequest, pk: uuid.UUID) -> Confirmation:
    """GET asks, POST ends the experiments that still run without a winner."""
    group = _get_group(request, pk)
    return Confirmation(
        title=f"Stop “{group}”?",
        explanation="Its experiments end without a winner and cannot be resumed. The champion serves all units again.",
        button="Stop the experiments",
        do=lambda: stop_group(by=request.actor, group=group, reason=read_reason(request)),
        done="The experiments have stopped. The champion serves all units again.",
        asks_reason=True,
    )
