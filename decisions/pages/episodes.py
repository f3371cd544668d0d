"""Pages of episodes: the list, and one episode in order."""

from __future__ import annotations

import datetime as dt
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.db.models import Exists, OuterRef, QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from decisions.models import Agent, Decision, Episode, Feedback, Step
from decisions.queries.browse import WINDOWS
from decisions.queries.episode_shown import duration_of, show_episode
from decisions.queries.episodes import Totals, find_steps, find_totals
from workspaces.errors import FieldFault, InvalidInput
from workspaces.ids import uuid7_bound
from workspaces.index_order import read_in_index_order
from workspaces.pages import PageRequest, wants_part, workspace_page

PAGE = 25
LOOK = 2_000
"""Among how many of the newest episodes failures are looked for, which no index serves."""
CLOCKS = dt.timedelta(hours=1)
"""How far a client's clock may be ahead of ours."""
MOST_LINES = 500
STATES = {"failed": "With failures"}
FIELDS = ("agent", "session", "since", "state", "q")


@dataclass(frozen=True, slots=True)
class Filters:
    """What the list is narrowed to; empty is all. `q` is exactly an id, a name, a trace or a unit."""

    agent: str = ""
    session: str = ""
    since: str = ""
    state: str = ""
    q: str = ""

    @property
    def query(self) -> str:
        return urlencode({name: value for name in FIELDS if (value := getattr(self, name))})

    @property
    def narrowed(self) -> bool:
        return bool(self.query)


@dataclass(frozen=True, slots=True)
class Row:
    episode: Episode
    totals: Totals
    duration_ms: float | None


def _parse(request: PageRequest) -> Filters:
    """Raises InvalidInput. An unknown agent or session is no fault: it finds nothing."""
    filters = Filters(**{name: request.GET.get(name, "").strip()[:200] for name in FIELDS})
    for name, known in (("since", WINDOWS), ("state", STATES)):
        if getattr(filters, name) and getattr(filters, name) not in known:
            raise InvalidInput(
                "The filter is invalid.",
                faults=[FieldFault(name, f"{getattr(filters, name)!r} is unknown", ", ".join(known))],
            )
    return filters


def _narrow(request: PageRequest, filters: Filters, before: uuid.UUID | None) -> QuerySet[Episode]:
    """Each part by an index, whatever the ledger holds."""
    found: QuerySet[Episode] = Episode.objects.for_workspace(request.workspace).select_related("agent").order_by("-id")
    if filters.agent:
        # By its id: joined by its slug, an agent of few episodes is looked for among all.
        agent = Agent.objects.for_workspace(request.workspace).filter(slug=filters.agent).first()
        found = found.filter(agent_id=agent.id) if agent is not None else found.none()
    if filters.session:
        found = found.filter(session=filters.session)
    if filters.since:
        since = timezone.now() - WINDOWS[filters.since][1]
        # No index holds the start. An episode's id is of when we first heard of it, so not long before its start.
        found = found.filter(started_at__gte=since, id__gte=uuid7_bound(since - CLOCKS))
    if before is not None:
        found = found.filter(id__lt=before)
    if filters.q:
        found = found.filter(id__in=_find_named(request, filters.q, before))
    if filters.state == "failed":
        look = found.values("id")[:LOOK]
        found = found.filter(id__in=look).filter(Exists(Step.objects.filter(episode=OuterRef("pk"), success=False)))
    return found


def _find_named(request: PageRequest, q: str, before: uuid.UUID | None) -> set[uuid.UUID]:
    """Episodes whose id, name, trace or unit this is: a look at an index each, since none serves an OR of them."""
    own = Episode.objects.for_workspace(request.workspace)
    agents = list(Agent.objects.for_workspace(request.workspace).values_list("id", flat=True))
    ways = [
        own.filter(agent__in=agents, external_id=q),
        own.filter(trace=q.lower().removeprefix("trace:")),
        own.filter(unit=q),
    ]
    with suppress(ValueError):  # else it is a name
        ways.append(own.filter(id=uuid.UUID(q)))
    if before is not None:
        ways = [way.filter(id__lt=before) for way in ways]
    return {pk for way in ways for pk in way.order_by("-id").values_list("id", flat=True)[:LOOK]}


@require_safe
@workspace_page()
@read_in_index_order()
def episode_list(request: PageRequest) -> HttpResponse:
    """By cursor: `before` is the id of the last episode on the page before."""
    filters = _parse(request)
    given = request.GET.get("before", "")
    try:
        before = uuid.UUID(given) if given else None
    except ValueError as error:
        raise InvalidInput(
            "The position in the list is invalid.", faults=[FieldFault("before", "is not an id", "an episode's id")]
        ) from error
    episodes = list(_narrow(request, filters, before)[: PAGE + 1])
    older = episodes[PAGE - 1].id if len(episodes) > PAGE else None
    totals = find_totals([episode.id for episode in episodes[:PAGE]])
    rows = [Row(one, found := totals.get(one.id, Totals()), duration_of(one, found)) for one in episodes[:PAGE]]
    context = {
        "rows": rows,
        "filters": filters,
        "agents": Agent.objects.for_workspace(request.workspace).order_by("name"),
        "windows": [(key, text) for key, (text, _) in WINDOWS.items()],
        "states": list(STATES.items()),
        "query": filters.query,
        "before": given,
        "older": "&".join(part for part in (filters.query, urlencode({"before": older})) if part) if older else "",
        "without_session": replace(filters, session="").query,
    }
    return render(request, "episodes/_list.html" if wants_part(request) else "episodes/list.html", context)


@require_safe
@workspace_page()
def episode_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    episode = Episode.objects.for_workspace(request.workspace).select_related("agent").filter(pk=pk).first()
    if episode is None:
        raise Http404("Episode not found.")
    steps = find_steps(episode, most=MOST_LINES + 1)
    decisions = list(
        Decision.objects.for_workspace(request.workspace)
        .filter(episode=episode)
        .select_related("agent", "agent_version", "model_version__registered_model")
        .defer("content_hash", "token_ids", "logprobs")
        .order_by("id")[: MOST_LINES + 1]
    )
    feedback = Feedback.objects.for_workspace(request.workspace).filter(episode=episode).order_by("observed_at", "id")
    story = show_episode(
        episode,
        totals=find_totals([episode.id]).get(episode.id, Totals()),
        steps=steps[:MOST_LINES],
        decisions=decisions[:MOST_LINES],
        feedback=list(feedback[:100]),
        more=len(steps) > MOST_LINES or len(decisions) > MOST_LINES,
    )
    context: dict[str, Any] = {"story": story, "episode": episode, "most": MOST_LINES}
    return render(request, "episodes/detail.html", context)
