"""What happens to every request before its view: an id for logs and answers, and no body without a length."""

from __future__ import annotations

import re
from collections.abc import Callable

import structlog
from csp.constants import HEADER
from csp.middleware import CSPMiddleware
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from workspaces.api_errors import json_error
from workspaces.errors import LengthRequired
from workspaces.ids import uuid7

ACCEPTED = re.compile(r"^[A-Za-z0-9._-]{1,64}$")


class ReleaseMiddleware:
    """Lets an API request go once it is answered. What other middleware hangs on a request refers back to it, and a
    body of up to 10 MB would wait for the collector of cycles with it."""

    HELD = ("csp_nonce", "htmx", "_messages", "user", "auser", "session")

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if _is_json(response) and not response.streaming:
            for name in self.HELD:
                request.__dict__.pop(name, None)
        return response


def _is_json(response: HttpResponseBase) -> bool:
    return response.headers.get("Content-Type", "").startswith("application/json")


class RequestIdMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-Id", "")
        request_id = given if ACCEPTED.match(given) else str(uuid7())
        request.request_id = request_id  # type: ignore[attr-defined]
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            response = self.get_response(request)
        response["X-Request-Id"] = request_id
        return response


class PolicyMiddleware(CSPMiddleware):
    """The content security policy: of pages by the settings, of JSON that nothing may be loaded or framed.

    The latter is one fixed text; composing the former takes longer than much of recording a decision.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if _is_json(response):
            response.headers[HEADER] = "default-src 'none'; frame-ancestors 'none'"
            return response
        return super().process_response(request, response)


class ContentLengthMiddleware:
    """Refuses chunked bodies by 411: without a length WSGI reads them as empty, and an empty body loses data."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.META.get("HTTP_TRANSFER_ENCODING") and not request.META.get("CONTENT_LENGTH"):
            return json_error(request, LengthRequired("Send a Content-Length; chunked bodies are not taken."))
        return self.get_response(request)
