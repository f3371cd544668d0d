"""Pages of a draft of a reward spec: what it would change of history, publishing and dropping it."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from decisions.errors import OutdatedVersion
from decisions.models import Agent, RewardDraft
from decisions.pages.found import get_agent
from decisions.pages.rewards import get_newest_spec
from decisions.queries.reward_specs import compare_specs
from decisions.queries.what_if_shown import show_comparison
from decisions.rewards.queueing import UNDER_WAY
from decisions.rewards.spec_content import complete, read_content
from decisions.rewards.specs import content_of
from decisions.rewards.what_if import drop_draft, publish_draft, read_result
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, workspace_page
from workspaces.pages.polled import Followed, polled_part


@require_safe
@workspace_page()
def reward_draft(request: PageRequest, agent: str, pk: uuid.UUID) -> HttpResponse:
    """What the draft changes, and what history is worth by it."""
    found, draft = _find(request, agent, pk)
    context = {
        **_state(found, draft),
        "newest": get_newest_spec(found),
        "changes": compare_specs(content_of(draft.base), complete(read_content(draft.content))),
    }
    return render(request, "rewards/draft.html", context)


@polled_part("rewards/_tried.html")
def reward_draft_status(request: PageRequest, agent: str, pk: uuid.UUID) -> Followed:
    """How far the draft is tried on history."""
    state = _state(*_find(request, agent, pk))
    return Followed(state, over=not state["under_way"])


@require_POST
@workspace_page(role=Role.ADMIN)
def reward_draft_publish(request: PageRequest, agent: str, pk: uuid.UUID) -> HttpResponse:
    found, draft = _find(request, agent, pk)
    try:
        made = publish_draft(by=request.actor, draft=draft)
    except OutdatedVersion:
        messages.error(request, "There is a newer version than this draft is based on. Edit the draft again.")
        return redirect("pages:reward-draft", request.workspace.slug, found.slug, draft.id)
    messages.success(request, f"{found.name} has reward spec {made.spec.number} now. Its rewards are being calculated.")
    return redirect("pages:agent-rewards", request.workspace.slug, found.slug)


@require_POST
@workspace_page(role=Role.ADMIN)
def reward_draft_drop(request: PageRequest, agent: str, pk: uuid.UUID) -> HttpResponse:
    found, draft = _find(request, agent, pk)
    drop_draft(by=request.actor, draft=draft)
    messages.success(request, "The draft was dropped.")
    return redirect("pages:agent-rewards", request.workspace.slug, found.slug)


def _state(agent: Agent, draft: RewardDraft) -> dict[str, Any]:
    result = read_result(draft)
    return {
        "agent": agent,
        "draft": draft,
        "result": result,
        "shown": show_comparison(result) if result is not None else None,
        "under_way": result is None and draft.job is not None and draft.job.state in UNDER_WAY,
    }


def _find(request: PageRequest, slug: str, pk: uuid.UUID) -> tuple[Agent, RewardDraft]:
    agent = get_agent(request, slug)
    draft: RewardDraft | None = (
        agent.reward_drafts.select_related("base__agent", "job", "published").filter(id=pk).first()
    )
    if draft is None:
        raise Http404("Draft not found.")
    return agent, draft
