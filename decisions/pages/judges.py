"""Pages of an agent's judges: what is known of each, and calibrating one now."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from decisions.judges.calibrating import request_calibration
from decisions.judges.ledger import JudgeName
from decisions.pages.found import get_agent
from decisions.queries.judges import show_judges
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, workspace_page


@require_safe
@workspace_page()
def agent_judges(request: PageRequest, agent: str) -> HttpResponse:
    """Each judge with its state, its means beside each other, agreement and biases."""
    found = get_agent(request, agent)
    return render(request, "judges/index.html", {"agent": found, "judges": show_judges(found)})


@require_POST
@workspace_page(role=Role.ADMIN)
def agent_judge_calibrate(request: PageRequest, agent: str) -> HttpResponse:
    found = get_agent(request, agent)
    judge = JudgeName(request.POST.get("metric", ""), request.POST.get("source", ""))
    request_calibration(by=request.actor, agent=found, judge=judge)
    messages.success(request, f"{judge.metric} is being calibrated. Reload the page to see the result.")
    return redirect("pages:agent-judges", request.workspace.slug, found.slug)
