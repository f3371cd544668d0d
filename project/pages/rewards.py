"""The page of rewards: waiting feedback, the progress of a calculation, and the button that starts one."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from decisions.rewards.queueing import UNDER_WAY, find_all_calculations, request_calculation
from project.pages.home.counts import count_unread
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, workspace_page
from workspaces.pages.polled import Followed, polled_part

SHOWN = 10


def _state(request: PageRequest) -> dict[str, Any]:
    """Two statements."""
    jobs = list(find_all_calculations(request.workspace)[:SHOWN])
    over = [job for job in jobs if job.is_terminal]
    return {
        "jobs": jobs,
        "under_way": next((job for job in jobs if job.workspace_id is not None and job.state in UNDER_WAY), None),
        "last": over[0] if over else None,
        "unread": count_unread(request.workspace),
        "hour": settings.REWARDS_HOUR_UTC,
    }


@require_safe
@workspace_page()
def rewards(request: PageRequest) -> HttpResponse:
    return render(request, "project/rewards.html", _state(request))


@require_POST
@workspace_page(role=Role.ADMIN)
def rewards_calculate(request: PageRequest) -> HttpResponse:
    """Asks for a calculation; while one is under way this changes nothing."""
    request_calculation(by=request.actor)
    messages.success(request, "The calculation is queued.")
    return redirect("pages:rewards", request.workspace.slug)


@polled_part("project/_calculations.html")
def rewards_status(request: PageRequest) -> Followed:
    state = _state(request)
    return Followed(state, over=state["under_way"] is None)
