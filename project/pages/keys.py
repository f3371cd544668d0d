"""The page of one API key: what it used today, and its limits."""

from __future__ import annotations

import uuid
from dataclasses import asdict

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from decisions.models import Agent
from models_registry.calls.key_limits import measure_key_use
from project.pages.key_limits_form import KeyLimitsForm
from workspaces.access import actors
from workspaces.access.services import change_key_limits, is_live
from workspaces.errors import InvalidInput
from workspaces.http.throttling import count_this_minute, limit_of
from workspaces.models import ApiKey, Role
from workspaces.pages.guard import PageRequest, workspace_page
from workspaces.storage.clock import database_now


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def key_limits(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """GET shows use and limits; POST changes the limits."""
    keys = ApiKey.objects.for_workspace(request.workspace).select_related("workspace")
    key, now = get_object_or_404(keys, pk=pk), timezone.now()
    agents = Agent.objects.for_workspace(request.workspace).order_by("created_at")
    form = KeyLimitsForm(request.POST or None, agents=agents, key=key)
    if request.method == "POST" and form.is_valid():
        try:
            change_key_limits(by=request.actor, key=key, changes=asdict(form.limits))
        except InvalidInput as error:
            form.add_faults(error.faults)
        else:
            messages.success(request, f"The limits of {key.name} are saved. They count from its next request on.")
            return redirect("pages:key-limits", request.workspace.slug, key.pk)
    context = {
        "key": key,
        "form": form,
        "live": is_live(key, now),
        "use": measure_key_use(key, now=database_now()),
        "requests": count_this_minute(actors.program(key)),
        "most_requests": limit_of(key),
    }
    return render(request, "project/key.html", context, status=400 if request.method == "POST" else 200)
