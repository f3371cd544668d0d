"""OpenAI's shape of an error: what its clients turn into exceptions."""

from __future__ import annotations

from typing import Any

from decisions.errors import UnknownAgent
from models_registry.errors import AgentNotAllowed, BudgetSpent, ChatRefused, NoChampion, UnknownVersion
from workspaces.errors import InFlight, ReckonerError, TooManyRequests
from workspaces.http.api_errors import headers_of
from workspaces.http.throttling import Allowance

TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
NOT_FOUND = "model_not_found"
QUOTA = "insufficient_quota"
RATE_LIMIT, RATE_LEFT, RATE_RESET = (f"x-ratelimit-{name}-requests" for name in ("limit", "remaining", "reset"))
SHOULD_RETRY = "x-should-retry"


def as_openai(error: ReckonerError) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, body and headers. `param` is the first field at fault; the message names them all.

    Clients send a request again after 408, 409, 429 and 5xx: no other refusal has one of these.
    """
    status, code, param, message = error.status, error.code, None, error.message
    if isinstance(error, UnknownAgent | UnknownVersion | NoChampion):
        status, param = 404, "model"
        code = code if isinstance(error, NoChampion) else NOT_FOUND
    elif isinstance(error, ChatRefused):
        status, param, code = 400, error.param, error.reason or code
    elif status == 429:
        code = QUOTA if isinstance(error, BudgetSpent) else "rate_limit_exceeded"
    elif status == 409 and not isinstance(error, InFlight):
        status = 400
    if error.faults:
        param = error.faults[0].field or None
        advice = "" if isinstance(error, TooManyRequests) else "give "  # which says itself what to do
        said = "; ".join(
            f"{fault.field} {fault.reason}" + (f" ({advice}{fault.expected})" if fault.expected else "")
            for fault in error.faults
        )
        message = f"{message} {said}."
    kind = TYPES.get(status) or ("server_error" if status >= 500 else "invalid_request_error")
    headers = headers_of(error)
    if isinstance(error, AgentNotAllowed):  # so says OpenAI of a model that a project has no access to
        kind, code, param = "invalid_request_error", NOT_FOUND, "model"
    elif isinstance(error, TooManyRequests) and error.limit is not None:
        headers |= rate_headers(Allowance(error.limit, 0, error.wait))
    elif isinstance(error, BudgetSpent):
        kind, headers = QUOTA, headers | {SHOULD_RETRY: "false"}  # its clients would try again within seconds
    return status, body_of(message, kind=kind, code=code, param=param), headers


def rate_headers(allowance: Allowance | None) -> dict[str, str]:
    """OpenAI's headers of the limit of requests; none where there is no limit."""
    if allowance is None:
        return {}
    return {
        RATE_LIMIT: str(allowance.limit),
        RATE_LEFT: str(allowance.left),
        RATE_RESET: f"{allowance.seconds}s",
    }


def body_of(message: str, *, kind: str, code: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
