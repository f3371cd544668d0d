"""Pages of an agent's auto-labeler: what it learnt and suggests, and training it now."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from decisions.editors.table import editor_of
from decisions.errors import NothingToSuggest
from decisions.labelling.suggesting import find_auto_labeler, find_under_way, get_target, request_suggestions
from decisions.labelling.telling import tell_auto_labeler
from decisions.labelling.wording import text_of
from decisions.models import Agent, LabelSuggestion
from decisions.pages.found import get_agent
from decisions.queries.episode_ends import fill_ends
from decisions.queries.suggestion_shown import ShownSuggestion
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, workspace_page

MOST_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Line:
    """A suggestion and what it says; what was asked, and what was chosen or answered."""

    suggestion: LabelSuggestion
    says: str
    asked: str
    chosen: str


@require_safe
@workspace_page()
def agent_suggestions(request: PageRequest, agent: str) -> HttpResponse:
    """How good the auto-labeler is, and the surest of what it suggests."""
    found = get_agent(request, agent)
    known = LabelSuggestion.objects.filter(agent=found).select_related("decision__agent_version", "episode")
    suggestions = list(known[:MOST_SHOWN])
    fill_ends([one.episode for one in suggestions if one.episode is not None])
    labeler = find_auto_labeler(found)
    context = {
        "agent": found,
        "labeler": labeler,
        "says": tell_auto_labeler(labeler),
        "lines": [Line(one, ShownSuggestion(one).says, *_tell_subject(one)) for one in suggestions],
        "under_way": find_under_way(found),
        "possible": _is_possible(found),
    }
    return render(request, "agents/suggestions.html", context)


@require_POST
@workspace_page(role=Role.ADMIN)
def agent_suggestions_learn(request: PageRequest, agent: str) -> HttpResponse:
    found = get_agent(request, agent)
    request_suggestions(by=request.actor, agent=found)
    messages.success(request, f"The auto-labeler of {found.name} is learning. Reload the page to see what it suggests.")
    return redirect("pages:agent-suggestions", request.workspace.slug, found.slug)


def _is_possible(agent: Agent) -> bool:
    try:
        get_target(agent)
    except NothingToSuggest:
        return False
    return True


def _tell_subject(suggestion: LabelSuggestion) -> tuple[str, str]:
    if suggestion.episode is not None:
        return suggestion.episode.query, suggestion.episode.final_response
    decision = suggestion.decision
    return (text_of(decision.state), editor_of(decision).say(decision.action)) if decision is not None else ("", "")
