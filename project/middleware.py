"""Runs before every view: gives the request an id for logs and answers, and refuses a body without a length.

Recording a decision takes a millisecond, so requests of programs skip what they do not need.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import structlog
from csp.constants import HEADER as POLICY
from csp.middleware import CSPMiddleware
from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

from project.health import unavailable
from project.pages.views import database_away
from project.postgresql.watch import watch
from workspaces.accounts.log_in import client_address
from workspaces.errors import LengthRequired, NotAllowed, TooLarge
from workspaces.http.api_errors import LATER, RETRY_SECONDS, json_error
from workspaces.http.form_values import OF_PROGRAMS
from workspaces.http.parsing import MAX_BODY
from workspaces.storage.ids import uuid7

ACCEPTED = re.compile(r"^[A-Za-z0-9._-]{1,64}$")
UNLOGGED = ("/livez", "/readyz", "/metrics", settings.STATIC_URL)
LONGEST_PATH = 200
NO_DEVICES = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"
POLICY_OF_JSON = "default-src 'none'; frame-ancestors 'none'"

log = structlog.get_logger(__name__)


class RequestIdMiddleware:
    """The id stays with the thread until its next request: Django logs a refusal after every middleware has returned.

    Outermost, so that it writes one line for each request: never a query, a header or a body.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        began = time.perf_counter()
        given = request.META.get("HTTP_X_REQUEST_ID", "")  # `headers` would go through all of them
        request_id = given if ACCEPTED.match(given) else str(uuid7())
        request.request_id = request_id  # type: ignore[attr-defined]
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        response = self.get_response(request)
        response["X-Request-Id"] = request_id
        if not request.path.startswith(UNLOGGED):
            milliseconds = round((time.perf_counter() - began) * 1000, 1)
            path = request.path[:LONGEST_PATH]
            who = {"address": client_address(request)} if response.status_code >= 400 else {}
            log.info("request", method=request.method, path=path, status=response.status_code, ms=milliseconds, **who)
        return response


class RetryAfterMiddleware:
    """Every answer that says "later" says when, of pages, API and probes: what has not named a time, in a second."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code in LATER:
            response.headers.setdefault("Retry-After", str(RETRY_SECONDS))
        return response


class BrowserRulesMiddleware:
    """What a browser may do with an answer beyond Django's own headers: keep nothing that is not a static file, give no
    other site's page the content, and use no camera, microphone or place. A program that calls without TLS is refused:
    a redirect would hide that it sends its key in the clear."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if settings.SECURE_SSL_REDIRECT and request.path.startswith(OF_PROGRAMS) and not request.is_secure():
            response: HttpResponse = json_error(request, NotAllowed("Call this address with https."))
        else:
            response = self.get_response(request)
        headers = response.headers
        headers["Cross-Origin-Resource-Policy"] = "same-origin"
        headers["Permissions-Policy"] = NO_DEVICES
        headers.setdefault("Cache-Control", "no-store")
        return response


class DatabaseAwayMiddleware:
    """Answers 503 at once while the database is known to be away (project.postgresql.watch), so that no request waits
    behind others that wait for it. The probe of the process is answered as always."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if watch.is_away and request.path != "/livez":
            watch.look()
            return unavailable() if request.path == "/readyz" else database_away(request)
        return self.get_response(request)


class ContentLengthMiddleware:
    """Refuses what the web process has not read: by 413 what is longer than anything of its kind that is taken, and by
    411 a chunked body that no server has decoded (HTTP/1.0, or another WSGI server), since without a length WSGI reads
    it as empty, and an empty body loses data."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        length = request.META.get("CONTENT_LENGTH") or ""
        if refusal := request.META.get("HTTP_BODY_REFUSED"):  # project.web.connections.REFUSED
            return json_error(request, TooLarge(refusal))
        if request.META.get("HTTP_TRANSFER_ENCODING") and not length:
            return json_error(request, LengthRequired("Send a Content-Length, or a chunked body by HTTP/1.1."))
        # A form's escapes are taken apart piece by piece: ten megabytes of them take seconds and hundreds of megabytes.
        form = request.content_type == "application/x-www-form-urlencoded"
        most = MAX_BODY if form else settings.LARGEST_BODY
        if length.isdecimal() and (len(length) > 19 or int(length) > most):
            return json_error(request, TooLarge(f"The body has more than {most} bytes."))
        return self.get_response(request)


class PolicyMiddleware(CSPMiddleware):  # type: ignore[misc]
    """The policy of what a browser shows, and a fixed one for JSON, which loads nothing: made anew for each answer, it
    would take a tenth of a decision's time."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.get("Content-Type") != "application/json":
            made: HttpResponseBase = super().process_response(request, response)
            return made
        response[POLICY] = POLICY_OF_JSON
        return response


class CompressedPagesMiddleware(GZipMiddleware):
    """Pages and their parts travel compressed. Answers to programs do not: it would take as long as recording does."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not response.get("Content-Type", "").startswith("text/html"):
            return response
        return super().process_response(request, response)  # type: ignore[arg-type]


class PagesNeedLogInMiddleware(LoginRequiredMiddleware):
    """Asks whether a view needs a log-in before who is logged in: else the session is read for every key, too."""

    def process_view(self, request: HttpRequest, view_func: Callable[..., Any], *given: Any) -> HttpResponseBase | None:
        if not getattr(view_func, "login_required", True):
            return None
        return super().process_view(request, view_func, *given)
