"""Pages of an agent's rewards: the current reward spec, its versions and drafts, one version, and its YAML."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from decisions.models import Agent, RewardSpec
from decisions.pages.found import get_agent, number_of
from decisions.queries.reward_specs import (
    compare_specs,
    describe_components,
    find_progress,
    list_drafts,
    list_specs,
    tell_credit,
)
from decisions.rewards.judged import find_left_out
from decisions.rewards.spec_content import editable_content
from decisions.rewards.specs import content_of
from workspaces.http.yaml_text import MEDIA, write_yaml
from workspaces.pages.guard import PageRequest, workspace_page
from workspaces.pages.polled import Followed, polled_part


@require_safe
@workspace_page()
def agent_rewards(request: PageRequest, agent: str) -> HttpResponse:
    """The current spec, all versions, newest first, and drafts; `before` is the number of the last version shown."""
    found = get_agent(request, agent)
    given = request.GET.get("before", "")
    lines, older = list_specs(found, before=number_of(given) if given else None)
    spec = get_newest_spec(found)
    context = {
        **describe(found, spec),
        "lines": lines,
        "before": given,
        "older": urlencode({"before": older}) if older is not None else "",
        "drafts": list_drafts(found),
        "progress": find_progress(found, spec),
    }
    return render(request, "rewards/index.html", context)


@polled_part("rewards/_progress.html")
def agent_rewards_status(request: PageRequest, agent: str) -> Followed:
    found = get_agent(request, agent)
    spec = get_newest_spec(found)
    progress = find_progress(found, spec)
    return Followed({"agent": found, "spec": spec, "progress": progress}, over=not progress.under_way)


@require_safe
@workspace_page()
def agent_reward_spec(request: PageRequest, agent: str, number: int) -> HttpResponse:
    """One version in full, and what it changed of the version before it."""
    found = get_agent(request, agent)
    spec = _get_spec(found, number)
    older = found.reward_specs.filter(number__lt=number).order_by("-number").first()
    context = {
        **describe(found, spec),
        "newest": get_newest_spec(found),
        "older": older,
        "changes": compare_specs(content_of(older), content_of(spec)) if older is not None else [],
        "yaml": yaml_of(spec),
    }
    return render(request, "rewards/spec.html", context)


@require_safe
@workspace_page()
def agent_reward_yaml(request: PageRequest, agent: str, number: int) -> HttpResponse:
    """The version as a file that can be edited and uploaded again."""
    found = get_agent(request, agent)
    spec = _get_spec(found, number)
    name = f"{found.slug}-rewards-{spec.number}.yaml"
    return HttpResponse(
        yaml_of(spec), content_type=MEDIA, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


def describe(agent: Agent, spec: RewardSpec) -> dict[str, Any]:
    """What the parts of pages that show a reward spec need."""
    credit, credit_says = tell_credit(spec)
    return {
        "agent": agent,
        "spec": spec,
        "components": describe_components(spec),
        "credit": credit,
        "credit_says": credit_says,
        "left_out": list(find_left_out(agent, spec.judges).values()),
    }


def yaml_of(spec: RewardSpec) -> str:
    return write_yaml(editable_content(content_of(spec)))


def get_newest_spec(agent: Agent) -> RewardSpec:
    spec: RewardSpec | None = agent.reward_specs.order_by("-number").first()
    if spec is None:
        raise Http404("This agent has no reward spec.")
    return spec


def _get_spec(agent: Agent, number: int) -> RewardSpec:
    spec: RewardSpec | None = agent.reward_specs.filter(number=number).first() if number < 2**31 else None
    if spec is None:
        raise Http404("Version not found.")
    return spec
