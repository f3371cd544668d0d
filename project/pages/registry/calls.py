"""Pages of calls: the questions to the gateway, and how each one was answered."""

from __future__ import annotations

import uuid
from urllib.parse import urlencode

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from decisions.models import Agent, Decision
from models_registry.calls.lists import find_calls, read_filters
from models_registry.models import Backend, Call, CallState, ModelVersion
from workspaces.errors import FieldFault, InvalidInput
from workspaces.pages.guard import PageRequest, wants_part, workspace_page
from workspaces.storage.index_order import read_in_index_order

PAGE, CHOICES = 50, 50


@require_safe
@workspace_page()
@read_in_index_order()
def call_list(request: PageRequest) -> HttpResponse:
    """By cursor: `before` is the id of the last call on the page before."""
    filters, given = read_filters(request.GET), request.GET.get("before", "")
    try:
        before = uuid.UUID(given) if given else None
    except ValueError as error:
        raise InvalidInput(
            "The position in the list is invalid.", faults=[FieldFault("before", "is not an id", "a call's id")]
        ) from error
    calls = list(find_calls(request.workspace, filters, before=before).order_by("-id")[: PAGE + 1])
    older = calls[PAGE - 1].id if len(calls) > PAGE else None
    versions = ModelVersion.objects.for_workspace(request.workspace).select_related("registered_model")
    context = {
        "calls": [(call, wait_of(call)) for call in calls[:PAGE]],
        "filters": filters,
        "query": filters.query,
        "states": CallState.choices,
        "agents": Agent.objects.for_workspace(request.workspace).order_by("name"),
        "versions": [str(version) for version in versions.order_by("-id")[:CHOICES]],
        "backends": Backend.objects.for_workspace(request.workspace).order_by("name")[:CHOICES],
        "before": given,
        "older": "&".join(part for part in (filters.query, urlencode({"before": older})) if part) if older else "",
    }
    return render(request, "registry/_calls.html" if wants_part(request) else "registry/calls.html", context)


def wait_of(call: Call) -> float | None:
    """Milliseconds from the question to the end of its answer; None while it is open."""
    return (call.closed_at - call.opened_at).total_seconds() * 1000 if call.closed_at is not None else None


@require_safe
@workspace_page()
def call_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    found = Call.objects.for_workspace(request.workspace).select_related(
        "registered_model", "assigned__registered_model", "served__registered_model", "backend", "api_key"
    )
    call = found.filter(pk=pk).first()
    if call is None:
        raise Http404("Call not found.")
    first = (call.first_byte_at - call.opened_at).total_seconds() * 1000 if call.first_byte_at is not None else None
    context = {
        "call": call,
        "wait": wait_of(call),
        "first_byte": first,
        "has_decision": Decision.objects.for_workspace(request.workspace).filter(id=pk).exists(),
    }
    return render(request, "registry/call.html", context)
