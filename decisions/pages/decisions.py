"""Pages of the ledger: the list of decisions, one decision, and labelling."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from decisions.answer_ids import read_decision_id
from decisions.labelling.labels import label_decision, withdraw_label
from decisions.labelling.skips import skip_decision, take_skip_back
from decisions.models import Agent, Decision, Label
from decisions.pages.cards import (
    AHEAD,
    get_decision,
    make_cards,
    read_label,
    show_editing,
    show_in_order,
)
from decisions.queries import browse
from decisions.queries.browse import Filters, parse_filters
from decisions.queries.chart import count_by_time
from decisions.queries.decision_shown import show_decision
from decisions.queries.queue import find_labelling_queue
from decisions.queries.suggestion_shown import find_suggestions
from decisions.queries.waterfall import draw_waterfall
from models_registry.models import Arm, ModelVersion
from workspaces.errors import FieldFault, InvalidInput
from workspaces.http.form_values import find_value_faults
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, safe_next, wants_part, workspace_page
from workspaces.storage.ids import uuid7_bound
from workspaces.storage.index_order import read_in_index_order
from workspaces.templatetags.show import in_words

PAGE = 25
MOST_HELD = 50
MOST_VERSIONS = 50


@dataclass(frozen=True, slots=True)
class Chip:
    """An active filter, and the query of the list without it."""

    name: str
    value: str
    query: str


def _id(name: str, given: str) -> uuid.UUID:
    try:
        return read_decision_id(given)
    except ValueError as error:
        raise InvalidInput(
            "The position in the list is invalid.", faults=[FieldFault(name, "is not an id", "a decision's id")]
        ) from error


@require_safe
@workspace_page()
@read_in_index_order()
def decision_list(request: PageRequest) -> HttpResponse:
    """By cursor: `before` is the id of the last decision on the page before. The chart stands on the first page."""
    filters = parse_filters(request.GET)
    given = request.GET.get("before", "")
    before = _id("before", given) if given else None
    start = None if filters.order else before
    search = browse.read_search(request.workspace, filters.q, unit=filters.unit, before=start)
    page = browse.find_page(request.workspace, filters, size=PAGE, before=before, search=search)
    agents = list(Agent.objects.for_workspace(request.workspace).order_by("name"))
    versions = (
        ModelVersion.objects.for_workspace(request.workspace)
        .select_related("registered_model")
        .order_by("-created_at", "-number")
    )
    context = {
        "rows": show_in_order(request, page.ids),
        "filters": filters,
        "chips": _chips(filters, agents, search),
        "chart": None if before else count_by_time(request.workspace, filters, search=search, found=page),
        "words": search.words,
        "look": browse.NAMED if search.by else browse.LOOK,
        "agents": agents,
        "versions": [str(version) for version in versions[:MOST_VERSIONS]],
        "verdicts": browse.VERDICTS,
        "arms": Arm.values,
        "endings": browse.ENDING_CHOICES,
        "windows": [(key, text) for key, (text, _) in browse.WINDOWS.items()],
        "query": filters.query,
        "before": given,
        "older": _with(filters, before=page.older) if page.older else "",
        "go_on": _with(filters, before=page.go_on) if page.go_on else "",
        "by_time": filters.without("order").query,
        "by_doubt": _with(filters.without("order"), order=browse.UNCERTAIN),
    }
    return render(request, "decisions/_list.html" if wants_part(request) else "decisions/list.html", context)


def _with(filters: Filters, **more: Any) -> str:
    return "&".join(part for part in (filters.query, urlencode(more)) if part)


def _chips(filters: Filters, agents: Sequence[Agent], search: browse.Search) -> list[Chip]:
    names = {agent.slug: agent.name for agent in agents}
    shown = {
        "agent": ("Agent", names.get(filters.agent, filters.agent)),
        "verdict": ("Verdict", in_words(filters.verdict)),
        "version": ("Model", filters.version),
        "arm": ("Arm", filters.arm),
        "finish_reason": ("Ended", in_words(filters.finish_reason)),
        "since": ("Time", browse.WINDOWS[filters.since][0].lower() if filters.since else ""),
        "unit": ("Unit", filters.unit),
        "q": ("Words" if search.words else f"Found by {search.by}", filters.q),
    }
    return [Chip(name, value, filters.without(field).query) for field, (name, value) in shown.items() if value]


@require_safe
@workspace_page()
@read_in_index_order()
def decision_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    decision = get_decision(request, pk)
    filters = parse_filters(request.GET)
    newer, older = browse.find_neighbours(request.workspace, filters, pk)
    shown = show_decision(decision, find_suggestions("decision", [pk]).get(pk))
    reward = shown.reward
    spec = reward.spec if reward is not None else decision.agent.reward_specs.order_by("-number").first()
    fall = draw_waterfall(decision, spec, reward, now=timezone.now()) if spec is not None else None
    context = {"shown": shown, "fall": fall, "older": older, "newer": newer, "query": filters.query}
    return render(request, "decisions/detail.html", context)


@require_safe
@workspace_page(role=Role.LABELLER)
@read_in_index_order()
def label_queue(request: PageRequest) -> HttpResponse:
    """One unjudged decision after the other, the most uncertain first. The next ones come along, so that none waits."""
    filters = parse_filters(request.GET).without("verdict", "order")
    return render(request, "decisions/label.html", _queue(request, filters))


def _queue(
    request: PageRequest,
    filters: Filters,
    *,
    held: frozenset[uuid.UUID] = frozenset(),
    gone: frozenset[uuid.UUID] = frozenset(),
) -> dict[str, Any]:
    """`held`: what the page shows next; `gone`: what it has let go of, whatever the ledger knows of it by now."""
    without = held | gone
    size = max(0, AHEAD - len(held))
    queue = find_labelling_queue(request.workspace, filters, size=size, without=without, reviewer=request.user.pk)
    midnight = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    mine = Label.objects.for_workspace(request.workspace).filter(reviewer=request.user, id__gte=uuid7_bound(midnight))
    done = mine.filter(decision__isnull=False).values("decision").distinct().count()
    return {
        "cards": make_cards(request, queue.ids),
        "waiting": queue.waiting,
        "more": queue.more,
        "done": done,
        "share": done / (done + queue.waiting) if done else 0.0,
        "query": filters.query,
        "narrowed": filters.narrowed,
        "look": browse.QUEUE_LOOK,
    }


@require_POST
@workspace_page(role=Role.LABELLER)
@show_editing
def decision_label(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Confirms, corrects, or skips. While a correction is being made, its form comes back and nothing is recorded."""
    decision, back = get_decision(request, pk), _read_back(request)
    given = read_label(request, decision)
    if "skip" in request.POST:
        skip_decision(by=request.actor, decision=decision, note=given["note"])
        return _answer(request, decision, back, "Skipped.")
    label_decision(by=request.actor, decision=decision, **given)
    decision = get_decision(request, pk)
    return _answer(request, decision, back, f"Recorded as {given['verdict']}.")


@require_POST
@workspace_page(role=Role.LABELLER)
def decision_unlabel(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Takes the reader's own skip back, else their newest label."""
    decision, back = get_decision(request, pk), _read_back(request)
    if take_skip_back(by=request.actor, decision=decision):
        return _answer(request, decision, back, "Your skip was undone.")
    withdraw_label(by=request.actor, decision=decision)
    return _answer(request, get_decision(request, pk), back, "Your label was undone.")


@dataclass(frozen=True, slots=True)
class _Back:
    """What the form says of the page that it stands on."""

    filters: Filters
    held: frozenset[uuid.UUID]
    sent: frozenset[uuid.UUID]


def _read_back(request: PageRequest) -> _Back:
    """Before anything is changed. Raises InvalidInput."""
    query = QueryDict(request.POST.get("query", ""))
    if faults := find_value_faults(query):
        raise InvalidInput("The filter is invalid.", faults=faults)
    held, sent = (
        frozenset(_id(name, given) for given in request.POST.getlist(name)[:MOST_HELD]) for name in ("have", "sent")
    )
    return _Back(parse_filters(query), held, sent)


def _answer(request: PageRequest, decision: Decision, back: _Back, says: str) -> HttpResponse:
    """The part that `view` names: `row` inside a list, `queue` while labelling, else the judgement of the page."""
    view, filters = request.POST.get("view", ""), back.filters
    if not wants_part(request):
        messages.success(request, says)
        return redirect(safe_next(request, reverse("pages:decision", args=[request.workspace.slug, decision.pk])))
    if view == "queue":
        gone = back.sent | {decision.pk}
        return render(request, "decisions/_queue.html", _queue(request, filters, held=back.held, gone=gone))
    part = "decisions/_row.html" if view == "row" else "decisions/_labelled.html"
    context = {"shown": show_decision(decision), "filters": filters, "query": filters.query}
    return render(request, part, {**context, "next": safe_next(request, request.path)})
