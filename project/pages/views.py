"""The overview of a workspace, and the error pages of the whole site."""

from __future__ import annotations

import re
import sys
from typing import Any, cast

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from project.pages.connect_views import rehearsals_url
from project.pages.home.overview import read_home
from workspaces.errors import InvalidInput, NotAllowed, NotFound, ReckonerError, Unavailable
from workspaces.http.api_errors import json_error
from workspaces.pages.guard import PageRequest, enter_workspace, workspace_page
from workspaces.pages.polled import Followed, polled_part
from workspaces.storage.full_disk import find_full_disk

WORKSPACE_PATH = re.compile(r"^/w/(?P<slug>[-\w]+)/")
REHEARSE = ".venv/bin/python manage.py rehearse FILE --text-field TEXT --label-field LABEL"


def _context(request: PageRequest) -> dict[str, Any]:
    home = read_home(request.workspace)
    return {"home": home, "rehearsals": rehearsals_url(request) if home.first_run else "", "rehearse": REHEARSE}


@require_safe
@workspace_page()
def overview(request: PageRequest) -> HttpResponse:
    return render(request, "project/overview.html", _context(request))


@polled_part("project/_loop.html")
def loop(request: PageRequest) -> Followed:
    context = _context(request)
    return Followed(context, over=not context["home"].busy)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _wrong(request, 400, InvalidInput("The request is invalid."))


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _wrong(request, 403, NotAllowed(str(exception) or "You are not allowed to do this."))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Below a workspace its members keep the way around."""
    place = WORKSPACE_PATH.match(request.path)
    if place and not hasattr(request, "workspace") and request.user.is_authenticated:
        enter_workspace(cast(PageRequest, request), place["slug"])
    return _wrong(request, 404, NotFound("Not found." if request.path.startswith("/api/") else "Page not found"))


class Fault(ReckonerError):
    status = 500
    code = "server_error"


def server_error(request: HttpRequest) -> HttpResponse:
    """Django calls it while the exception is handled. No context processors: the database may be what failed."""
    if (full := find_full_disk(sys.exception())) is not None:
        return _without_database(request, full)
    if isinstance(sys.exception(), OperationalError | InterfaceError):
        return database_away(request)
    return _without_database(request, Fault("Something went wrong on the server. The error has been logged."))


def database_away(request: HttpRequest) -> HttpResponse:
    """503: the same request may be sent again."""
    return _without_database(request, Unavailable("The database does not answer. Try again in a moment."))


def _without_database(request: HttpRequest, error: ReckonerError) -> HttpResponse:
    if request.path.startswith("/api/"):
        return json_error(request, error)
    context = {"error": error, "status": error.status, "request_id": getattr(request, "request_id", "")}
    return HttpResponse(render_to_string("errors/500.html", context), status=error.status)


def _wrong(request: HttpRequest, status: int, error: ReckonerError) -> HttpResponse:
    """JSON under /api, else a plain page."""
    if request.path.startswith("/api/"):
        return json_error(request, error)
    return render(request, "errors/error.html", {"error": error, "status": status}, status=status)
