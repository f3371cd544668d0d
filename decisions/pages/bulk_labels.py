"""Pages of labels in bulk: the one that asks with the exact count, and one of them with its progress and its undo."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from decisions.agents.current import find_current_version
from decisions.errors import CountChanged
from decisions.labelling.bulk import cancel_bulk, label_in_bulk, may_take_back, undo_bulk
from decisions.labelling.matching import MOST_IN_BULK, WALKED, Asked, Selection, find_matching, read_selection
from decisions.models import Agent, BulkLabel, Decision, Verdict
from workspaces.errors import FieldFault, InvalidInput
from workspaces.http.form_values import find_value_faults
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, workspace_page
from workspaces.pages.polled import Followed, polled_part

MEANINGS = {
    Verdict.CONFIRMED: "the chosen actions were right",
    Verdict.CORRECTED: "the chosen actions were wrong",
    Verdict.OVERRIDDEN: "someone did something else instead",
    Verdict.IGNORED: "nobody acted on them",
}
MOST_EARLIER = 10


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.LABELLER)
def bulk_ask(request: PageRequest) -> HttpResponse:
    """How many decisions match, and which verdict they get; POST labels as many as were shown, or shows the new
    count."""
    if request.method != "POST":
        return _ask(request, read_selection(request.GET))
    query = QueryDict(request.POST.get("query", ""))
    if faults := find_value_faults(query):
        raise InvalidInput("The filter is invalid.", faults=faults)
    selection = read_selection(query)
    try:
        bulk = label_in_bulk(
            by=request.actor,
            selection=selection,
            asked=Asked(_count(request, "matching"), _count(request, "labelled"), request.POST.get("digest", "")),
            verdict=request.POST.get("verdict", ""),
            corrected_action=request.POST.get("right") or None,
            replaces="replaces" in request.POST,
        )
    except CountChanged as error:
        return _ask(request, selection, changed=error.message, status=error.status)
    except InvalidInput as error:
        found = {fault.field: fault.says for fault in error.faults}
        return _ask(request, selection, faults=found, status=error.status)
    if not bulk.under_way:
        messages.success(request, f"{bulk.labelled:,} decisions were labelled.")
    return redirect("pages:label-bulk-detail", request.workspace.slug, bulk.pk)


def _count(request: PageRequest, name: str) -> int:
    text = request.POST.get(name, "")
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        fault = FieldFault(name, "is not a count", f"0 to {MOST_IN_BULK:,}")
        raise InvalidInput("The form is invalid.", faults=[fault])
    return int(text)


def _ask(request: PageRequest, selection: Selection, *, status: int = 200, **told: Any) -> HttpResponse:
    found = find_matching(request.workspace, selection)
    earlier = BulkLabel.objects.for_workspace(request.workspace).select_related("reviewer", "job").defer("decisions")
    context = {
        "found": found,
        "count": len(found.ids),
        "labelled": len(found.labelled),
        "most": MOST_IN_BULK,
        "walked": WALKED,
        "query": selection.filters.query,
        "named": bool(selection.ids),
        "older": Selection(selection.filters, before=found.older).query if found.older else "",
        "options": _list_options(request, selection),
        "verdicts": [(verdict.value, MEANINGS[verdict]) for verdict in Verdict],
        "given": request.POST,
        "earlier": earlier[:MOST_EARLIER],
    }
    return render(request, "bulk_labels/ask.html", context | told, status=status)


def _list_options(request: PageRequest, selection: Selection) -> list[str]:
    """Among which a correction chooses; none unless all decisions are one agent's, whose version fixes them."""
    agents = Agent.objects.for_workspace(request.workspace)
    if selection.ids:
        own = Decision.objects.for_workspace(request.workspace).filter(id__in=selection.ids)
        found = list(agents.filter(id__in=own.values_list("agent", flat=True).distinct())[:2])
    else:
        found = list(agents.filter(slug=selection.filters.agent) if selection.filters.agent else agents[:2])
    version = find_current_version(found[0]) if len(found) == 1 else None
    return list(version.options or []) if version is not None else []


@require_safe
@workspace_page()
def bulk_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    return render(request, "bulk_labels/detail.html", _state(request, _get(request, pk)))


@polled_part("bulk_labels/_status.html")
def bulk_status(request: PageRequest, pk: uuid.UUID) -> Followed:
    bulk = _get(request, pk)
    return Followed(_state(request, bulk), over=not bulk.under_way)


@require_POST
@workspace_page(role=Role.LABELLER)
def bulk_cancel(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    cancel_bulk(by=request.actor, bulk=_get(request, pk))
    return redirect("pages:label-bulk-detail", request.workspace.slug, pk)


@require_POST
@workspace_page(role=Role.LABELLER)
def bulk_undo(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    bulk = undo_bulk(by=request.actor, bulk=_get(request, pk))
    if not bulk.under_way:
        messages.success(request, "The labels were undone.")
    return redirect("pages:label-bulk-detail", request.workspace.slug, pk)


def _get(request: PageRequest, pk: uuid.UUID) -> BulkLabel:
    found = BulkLabel.objects.for_workspace(request.workspace).select_related("reviewer", "job").defer("decisions")
    bulk: BulkLabel | None = found.filter(pk=pk).first()
    if bulk is None:
        raise Http404("Labels in bulk not found.")
    return bulk


def _state(request: PageRequest, bulk: BulkLabel) -> dict[str, Any]:
    return {"bulk": bulk, "left": bulk.labels.count(), "may_take_back": may_take_back(request.actor, bulk)}
