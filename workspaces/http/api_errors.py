"""The one error envelope of the API; the only place where exceptions become HTTP."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import Http404, HttpRequest, JsonResponse
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from workspaces.errors import FieldFault, NotAllowed, NotFound, ReckonerError, Unavailable
from workspaces.storage.full_disk import find_full_disk

logger = structlog.get_logger(__name__)

LATER = (429, 503)
"""Statuses whose answers have a Retry-After, wherever they come from."""
RETRY_SECONDS = 1
"""What it says where nothing names another time."""
DRF_CODES = {
    400: "invalid_input",
    401: "not_authenticated",
    403: "not_allowed",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    415: "unsupported_media_type",
    429: "too_many_requests",
}


def envelope(code: str, message: str, faults: Sequence[FieldFault], request_id: str | None) -> dict[str, Any]:
    return {
        "error": {
            "code": code,
            "message": message,
            "fields": [{"field": f.field, "reason": f.reason, "expected": f.expected} for f in faults],
            "request_id": request_id,
        }
    }


def flatten(detail: Any, path: str = "") -> Iterator[FieldFault]:
    """DRF's nested validation details as flat faults with paths such as `options[2]`."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            joined = path if name == "non_field_errors" else f"{path}.{name}" if path else str(name)
            yield from flatten(inner, joined)
    elif isinstance(detail, list):
        for index, inner in enumerate(detail):
            yield from flatten(inner, path if isinstance(inner, str) else f"{path}[{index}]")
    else:
        yield FieldFault(path, str(detail))


def envelope_handler(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """Django REST Framework calls this. None lets a fault of ours become a logged 500."""
    request_id = getattr(context["request"]._request, "request_id", None)
    headers: dict[str, str] = {}
    if isinstance(error, Http404):
        error = NotFound("Not found.")
    elif isinstance(error, PermissionDenied):
        error = NotAllowed("You are not allowed to do this.")
    elif (full := find_full_disk(error)) is not None:
        logger.error("disk_full", error=str(error).partition("\n")[0])
        error = full
    elif isinstance(error, OperationalError):
        logger.error("database_unavailable", error=str(error).splitlines()[0] if str(error) else "")
        error = Unavailable("The database does not answer. Send the same request again.")
    if isinstance(error, ReckonerError):
        set_rollback()
        body = envelope(error.code, error.message, error.faults, request_id)
        return Response(body, status=error.status, headers=headers_of(error))
    if isinstance(error, exceptions.APIException):
        set_rollback()
        status = error.status_code
        if isinstance(error, exceptions.ValidationError):
            body = envelope("invalid_input", "Some fields are invalid.", list(flatten(error.detail)), request_id)
        else:
            body = envelope(DRF_CODES.get(status, "error"), str(error.detail), [], request_id)
        if header := getattr(error, "auth_header", None):
            headers["WWW-Authenticate"] = header
        if wait := getattr(error, "wait", None):
            headers["Retry-After"] = str(math.ceil(wait))
        return Response(body, status=status, headers=headers)
    return None


def headers_of(error: ReckonerError) -> dict[str, str]:
    """Retry-After, where the error says how many seconds to wait."""
    wait = getattr(error, "wait", None)
    return {} if wait is None else {"Retry-After": str(wait)}


def json_error(request: HttpRequest, error: ReckonerError) -> JsonResponse:
    """The same envelope outside Django REST Framework (unknown paths under /api)."""
    body = envelope(error.code, error.message, error.faults, getattr(request, "request_id", None))
    return JsonResponse(body, status=error.status, headers=headers_of(error))
