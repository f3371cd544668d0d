"""The page of an agent's rewards: over time, by component, what is open or failed, and how long verdicts take."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from decisions.pages.found import get_agent
from decisions.queries.reward_chart import plot_lag, plot_rewards
from decisions.queries.reward_sample import RANGES, parse_range
from decisions.queries.reward_summary import summarise_rewards
from workspaces.pages.guard import PageRequest, workspace_page


@require_safe
@workspace_page()
def reward_history(request: PageRequest, agent: str) -> HttpResponse:
    """By the agent's newest reward spec; `since` is a key of RANGES."""
    time = parse_range(request.GET.get("since", ""))
    found = get_agent(request, agent)
    spec = found.reward_specs.order_by("-number").first()
    summary = summarise_rewards(found, spec, time, now=timezone.now()) if spec is not None else None
    lag = summary.lag if summary is not None else None
    context = {
        "agent": found,
        "time": time,
        "ranges": RANGES.values(),
        "summary": summary,
        "plot": plot_rewards(summary) if summary is not None else None,
        "lag": lag,
        "lag_plot": plot_lag(lag) if lag is not None else None,
    }
    return render(request, "rewards/history.html", context)
