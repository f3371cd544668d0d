"""What happens to every request before its view: an id for logs and answers, and no body without a length."""

from __future__ import annotations

import re
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse

from workspaces.api_errors import json_error
from workspaces.errors import LengthRequired
from workspaces.ids import uuid7

ACCEPTED = re.compile(r"^[A-Za-z0-9._-]{1,64}$")


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


class ContentLengthMiddleware:
    """Refuses chunked bodies by 411: without a length WSGI reads them as empty, and an empty body loses data."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.META.get("HTTP_TRANSFER_ENCODING") and not request.META.get("CONTENT_LENGTH"):
            return json_error(request, LengthRequired("Send a Content-Length; chunked bodies are not taken."))
        return self.get_response(request)
