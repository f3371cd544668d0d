"""The page of an agent's action quality."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from decisions.pages.found import get_agent
from decisions.queries.reward_chart import plot_stretches
from decisions.queries.reward_sample import RANGES, parse_range
from decisions.queries.reward_summary import Stretch
from training.environments.solving.quality import MOST, Quality, measure_quality
from workspaces.pages.guard import PageRequest, workspace_page
from workspaces.templatetags import show


@require_safe
@workspace_page()
def action_quality(request: PageRequest, agent: str) -> HttpResponse:
    """`since` is a key of RANGES."""
    time = parse_range(request.GET.get("since", ""))
    quality = measure_quality(get_agent(request, agent), time, now=timezone.now())
    context = {
        "agent": quality.agent,
        "time": time,
        "ranges": RANGES.values(),
        "quality": quality,
        "plot": plot_stretches([_stretch(one) for one in quality.stretches], show.percent),
        "most": MOST,
    }
    return render(request, "agents/action_quality.html", context)


def _stretch(one: Quality) -> Stretch:
    """As the chart draws it: the share that is solved, with its interval."""
    return Stretch(
        start=one.start,
        looked_at=one.episodes + one.left_out,
        rewarded=one.episodes,
        full=False,
        mean=one.solved,
        low=one.solved_low,
        high=one.solved_high,
    )
