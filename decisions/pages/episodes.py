"""Pages of episodes: the list, and one episode in order."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from decisions.models import Agent, Episode
from decisions.queries.browse import WINDOWS
from decisions.queries.episode_ends import fill_ends
from decisions.queries.episode_list import STATES, find_episodes, parse_filters
from decisions.queries.episode_shown import tell_episodes
from decisions.queries.episodes import Totals, fill_totals
from workspaces.errors import FieldFault, InvalidInput
from workspaces.pages.guard import PageRequest, wants_part, workspace_page
from workspaces.storage.index_order import read_in_index_order

PAGE = 25
MOST_LINES, MOST_FEEDBACK = 500, 100


@dataclass(frozen=True, slots=True)
class Row:
    episode: Episode
    totals: Totals


@require_safe
@workspace_page()
@read_in_index_order()
def episode_list(request: PageRequest) -> HttpResponse:
    """By cursor: `before` is the id of the last episode on the page before."""
    filters = parse_filters(request.GET)
    given = request.GET.get("before", "")
    try:
        before = uuid.UUID(given) if given else None
    except ValueError as error:
        raise InvalidInput(
            "The position in the list is invalid.", faults=[FieldFault("before", "is not an id", "an episode's id")]
        ) from error
    found = find_episodes(request.workspace, filters, before=before).select_related("agent")
    episodes = list(found[: PAGE + 1])
    older = episodes[PAGE - 1].id if len(episodes) > PAGE else None
    totals = fill_totals(episodes[:PAGE])
    fill_ends(episodes[:PAGE])
    rows = [Row(one, totals[one.id]) for one in episodes[:PAGE]]
    context = {
        "rows": rows,
        "filters": filters,
        "agents": Agent.objects.for_workspace(request.workspace).order_by("name"),
        "windows": [(key, text) for key, (text, _) in WINDOWS.items()],
        "states": list(STATES.items()),
        "query": filters.query,
        "before": given,
        "older": "&".join(part for part in (filters.query, urlencode({"before": older})) if part) if older else "",
        "chips": [
            (title, value, replace(filters, **{name: ""}).query)
            for name, title in (("session", "Session"), ("unit", "Unit"))
            if (value := getattr(filters, name))
        ],
    }
    return render(request, "episodes/_list.html" if wants_part(request) else "episodes/list.html", context)


def get_episode(request: PageRequest, pk: uuid.UUID) -> Episode:
    """Raises Http404."""
    episode = Episode.objects.for_workspace(request.workspace).select_related("agent").filter(pk=pk).first()
    if episode is None:
        raise Http404("Episode not found.")
    return episode


@require_safe
@workspace_page()
def episode_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    episode = get_episode(request, pk)
    [story] = tell_episodes([episode], most=MOST_LINES, feedback=MOST_FEEDBACK)
    context: dict[str, Any] = {"story": story, "episode": episode, "most": MOST_LINES}
    return render(request, "episodes/detail.html", context)
