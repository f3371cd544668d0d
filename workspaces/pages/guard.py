"""The guard of every page: finds the workspace, and checks the person's role.

Views of all floors use `@workspace_page(...)`. Outsiders get 404, so that a workspace's existence stays private;
members whose role is too low get 403; a one-time password leads to the change page first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import structlog
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme
from django_htmx.middleware import HtmxDetails

from workspaces.access.actors import Actor, person
from workspaces.access.second_factor import lacks_second_factor
from workspaces.errors import ReckonerError
from workspaces.models import Membership, Role, User, Workspace

RANK: dict[str, int] = {Role.VIEWER: 0, Role.LABELLER: 1, Role.ADMIN: 2}


class PageRequest(HttpRequest):
    """What a guarded view receives."""

    htmx: HtmxDetails
    user: User
    workspace: Workspace
    actor: Actor
    role: str


def may(role: str, needed: str) -> bool:
    """Roles are an order: an admin may do what a labeller may, a labeller what a viewer may."""
    return RANK[role] >= RANK[needed]


def enter_workspace(request: PageRequest, slug: str) -> bool:
    """Puts the workspace, the role and the actor on the request of a member; False for everybody else."""
    found = Membership.objects.active().select_related("workspace").filter(workspace__slug=slug, user=request.user)
    membership = found.first()
    if membership is None:
        return False
    request.workspace, request.role = membership.workspace, membership.role
    request.actor = person(request.user, membership.workspace, membership.role)
    structlog.contextvars.bind_contextvars(actor=f"person:{request.user.pk}")
    return True


View = Callable[..., HttpResponseBase]


def refused_as_page(view: View) -> View:
    """An error of a service (a run that is over, a label that makes no sense) becomes a page with its status."""

    @wraps(view)
    def guarded(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        try:
            return view(request, **kwargs)
        except ReckonerError as error:
            return render(request, "errors/refused.html", {"error": error}, status=error.status)

    return guarded


def workspace_page(*, role: str = Role.VIEWER) -> Callable[[View], View]:
    """Wraps a view of `/w/<slug>/…`. The view gets a PageRequest and the URL's other arguments."""

    def decorate(view: View) -> View:
        answer = refused_as_page(view)

        @wraps(view)
        def guarded(request: PageRequest, slug: str, **kwargs: Any) -> HttpResponseBase:
            if request.user.must_change_password:
                return redirect("change-password")
            if lacks_second_factor(request.user):
                messages.info(request, "This instance asks for two-factor authentication. Turn it on to go on.")
                return redirect("mfa_activate_totp")
            if not enter_workspace(request, slug):
                raise Http404("Workspace not found.")
            if not may(request.role, role):
                raise PermissionDenied(f"This needs the role {Role(role).label.lower()} in {request.workspace}.")
            response = answer(request, **kwargs)
            # One address answers with the page or with a part of it.
            patch_vary_headers(response, ["HX-Request"])
            return response

        return guarded

    return decorate


def wants_part(request: PageRequest) -> bool:
    """True when htmx asks for a part. Going back in history wants the whole page again."""
    return bool(request.htmx) and not request.htmx.history_restore_request


def safe_next(request: HttpRequest, fallback: str) -> str:
    """The `next` of a form when it leads to this site, else `fallback`."""
    wanted = request.POST.get("next", "")
    hosts = {request.get_host()}
    safe = url_has_allowed_host_and_scheme(wanted, allowed_hosts=hosts, require_https=request.is_secure())
    # Django takes what has no slash for the name of a view.
    return wanted if safe and "/" in wanted else fallback
