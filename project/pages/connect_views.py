"""Pages for connecting an app: start the demo, make and revoke keys, show programs that use them."""

from __future__ import annotations

import datetime as dt
import uuid
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe

from decisions.agents.current import find_current_version
from decisions.models import Agent, AgentKind, Decision
from decisions.queries.first_answers import find_first_answers
from project.demo.start import start_demo
from project.pages.connect import (
    USUAL_SCOPES,
    Connection,
    NewAgent,
    Snippet,
    connect_app,
    find_gateway,
    is_served,
    show_connection,
    write_snippets,
)
from project.pages.key_limits_form import KeyLimitsForm
from workspaces.access.services import KeyLimits, NewKey, revoke_api_key
from workspaces.errors import InvalidInput
from workspaces.models import ApiKey, Role, Scope
from workspaces.pages.guard import PageRequest, may, workspace_page
from workspaces.pages.polled import Followed, polled_part
from workspaces.pages.shown_once import end_secret, read_secret, send_secret
from workspaces.storage.ids import uuid7_bound, uuid7_time

KEYS = 100
PLACEHOLDER = "YOUR-KEY"
NEW_AGENT = ""


def rehearsals_url(request: PageRequest) -> str:
    """The page of rehearsals, where this instance has one."""
    try:
        return reverse("pages:rehearsals", args=[request.workspace.slug])
    except NoReverseMatch:
        return ""


@require_POST
@workspace_page(role=Role.ADMIN)
def demo_start(request: PageRequest) -> HttpResponse:
    start_demo(by=request.actor)
    messages.success(request, "The demo is starting. This page shows its progress.")
    return redirect("pages:overview", request.workspace.slug)


@require_safe
@workspace_page()
def connect(request: PageRequest) -> HttpResponse:
    """Keys, and the programs with a placeholder for the key, of the first agent or of the `agent` of the query. Viewers
    read the programs and see no key."""
    given: dict[str, Any] = {"scopes": [scope.value for scope in USUAL_SCOPES], "kind": AgentKind.CUSTOM.value}
    given["agent"] = request.GET.get("agent", "")
    return render(request, "project/connect.html", _context(request, given))


@require_POST
@workspace_page(role=Role.ADMIN)
def key_make(request: PageRequest) -> HttpResponse:
    """Makes the key and leads to its page, so that a reload makes no second one.

    A form that is not usable comes back as it was filled, with its faults and status 400.
    """
    post = request.POST
    given: dict[str, Any] = {name: post.get(name, "") for name in ("name", "agent", "slug", "kind", "options")}
    given["scopes"] = post.getlist("scopes")
    limits, faults = _limits_form(request), {}
    try:
        made = _make(request, given, limits.limits) if limits.is_valid() else None
    except InvalidInput as error:
        faults = {fault.field: fault.reason for fault in error.faults} or {"form": error.message}
        made = None
    if made is None:
        context = _context(request, given) | {"limits": limits, "faults": faults}
        return render(request, "project/connect.html", context, status=400)
    key = made.made.key
    path = reverse("pages:key-made", args=[request.workspace.slug, key.pk])
    response = redirect(f"{path}?{urlencode({'agent': made.agent.slug})}")
    return send_secret(response, made.made.token, salt=str(key.pk))


@require_safe
@workspace_page(role=Role.ADMIN)
def key_made(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """The key and its programs, once."""
    key = get_object_or_404(ApiKey.objects.for_workspace(request.workspace), pk=pk)
    agent = get_object_or_404(Agent.objects.for_workspace(request.workspace), slug=request.GET.get("agent", ""))
    token = read_secret(request, salt=str(key.pk))
    if not token or key.revoked_at is not None:
        messages.info(request, f"The key {key.name} was already shown. If you lost it, revoke it and create another.")
        return redirect("pages:connect", request.workspace.slug)
    made = show_connection(made=NewKey(key=key, token=token), agent=agent)
    given = {"scopes": [scope.value for scope in USUAL_SCOPES], "kind": AgentKind.CUSTOM.value}
    context = _context(request, given, agent=agent)
    context |= {
        "made": made,
        "samples": _samples(write_snippets(url=_url(request), token=token, agent=agent, asks=made.asks)),
        "arrival": _arrival(request, key),
    }
    if "recording" in context:
        recording = write_snippets(url=_url(request), token=token, agent=agent, asks=False)
        context["recording"] = _samples(recording)
    return end_secret(render(request, "project/connect.html", context))


def _limits_form(request: PageRequest) -> KeyLimitsForm:
    agents = Agent.objects.for_workspace(request.workspace).order_by("created_at")
    return KeyLimitsForm(request.POST, agents=agents, auto_id="limit-%s")


def _make(request: PageRequest, given: dict[str, Any], limits: KeyLimits) -> Connection:
    agent = new = None
    if given["agent"] == NEW_AGENT:
        options = [line.strip() for line in given["options"].splitlines() if line.strip()]
        new = NewAgent(slug=given["slug"].strip(), name=given["slug"].strip(), kind=given["kind"], options=options)
    else:
        agent = Agent.objects.for_workspace(request.workspace).filter(slug=given["agent"]).first()
    return connect_app(
        by=request.actor, name=given["name"], scopes=given["scopes"], agent=agent, new=new, limits=limits
    )


def _url(request: PageRequest) -> str:
    return request.build_absolute_uri("/").rstrip("/")


def _samples(snippets: tuple[Snippet, ...]) -> list[tuple[str, str]]:
    return [(snippet.language, snippet.text) for snippet in snippets]


def _context(request: PageRequest, given: dict[str, Any], *, agent: Agent | None = None) -> dict[str, Any]:
    agents = list(Agent.objects.for_workspace(request.workspace).order_by("created_at"))
    named = next((one for one in agents if one.slug == request.GET.get("agent")), None)
    shown = agent or named or (agents[0] if agents else None)
    context: dict[str, Any] = {
        "agents": agents,
        "shown_agent": shown,
        "kinds": AgentKind.choices,
        "scopes": Scope.choices,
        "given": given,
        "rehearsals": rehearsals_url(request),
        "samples": [],
        "url": _url(request),
    }
    if shown is not None:
        served, version = is_served(shown), find_current_version(shown)
        chats = version is not None and version.chats
        write = partial(write_snippets, url=_url(request), token=PLACEHOLDER, agent=shown)
        context["samples"] = _samples(write(asks=served or chats))
        context |= {"served": served, "chats": chats, "gateway": find_gateway(_url(request))}
        if chats and not served:
            context["answers"] = find_first_answers(shown)
            context["recording"] = _samples(write(asks=False))
    if may(request.role, Role.ADMIN):
        context["limits"] = KeyLimitsForm(agents=agents, auto_id="limit-%s")
        context["keys"] = ApiKey.objects.for_workspace(request.workspace).order_by("-id")[:KEYS]
    return context


def _arrival(request: PageRequest, key: ApiKey) -> dict[str, Any]:
    """Has the app called, and has a decision arrived since the key was made?"""
    made_at = uuid7_time(key.id) or key.created_at
    first = (
        Decision.objects.for_workspace(request.workspace)
        .filter(id__gte=uuid7_bound(made_at - dt.timedelta(minutes=1)), recorded_at__gte=key.created_at)
        .select_related("agent")
        .order_by("id")
        .first()
    )
    return {"key": key, "decision": first}


@polled_part("project/_arrival.html", role=Role.ADMIN)
def key_arrival(request: PageRequest, pk: uuid.UUID) -> Followed:
    """The line that waits for the key's first decision."""
    key = ApiKey.objects.for_workspace(request.workspace).filter(pk=pk).first()
    if key is None:
        raise Http404("Key not found.")
    arrival = _arrival(request, key)
    over = arrival["decision"] is not None or key.revoked_at is not None
    return Followed({"arrival": arrival}, over=over)


@require_POST
@workspace_page(role=Role.ADMIN)
def key_revoke(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Asks first: the list's button brings the question, and the question's the end of the key."""
    key = ApiKey.objects.for_workspace(request.workspace).filter(pk=pk).first()
    if key is None:
        raise Http404("Key not found.")
    if not request.POST.get("confirmed"):
        return render(request, "project/key_revoke.html", {"key": key})
    revoke_api_key(by=request.actor, key=key)
    messages.success(request, f"The key {key.name} is revoked.")
    return redirect("pages:connect", request.workspace.slug)
