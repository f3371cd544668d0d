"""Errors of one item or one request, with the code that a client sees. Raised here, answered by the routes."""

from __future__ import annotations

from typing import Literal

Code = Literal[
    "invalid_request",
    "unsupported_parameter",
    "options_ambiguous",
    "context_length_exceeded",
    "unauthorised",
    "not_found",
    "model_not_found",
    "method_not_allowed",
    "artifact_corrupt",
    "artifact_unusable",
    "request_too_large",
    "overloaded",
    "shutting_down",
    "internal_error",
]

STATUS: dict[Code, int] = {
    "invalid_request": 400,
    "unsupported_parameter": 400,
    "options_ambiguous": 400,
    "context_length_exceeded": 400,
    "unauthorised": 401,
    "not_found": 404,
    "model_not_found": 404,
    "method_not_allowed": 405,
    "artifact_corrupt": 409,
    "artifact_unusable": 409,
    "request_too_large": 413,
    "overloaded": 429,
    "shutting_down": 503,
    "internal_error": 500,
}
"""HTTP status of each code. A client's mistake is a 4xx; a store whose bytes changed is a conflict with its digest."""


class Fault(Exception):
    """A refusal with its reason. `code` is for programs, `message` for people, `field` names the parameter.

    Agents on LiteLLM know `context_length_exceeded` only by OpenAI's words "This model's maximum context length is",
    with which the refusals of a conversation that is too long begin.
    """

    def __init__(self, code: Code, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field

    @property
    def status(self) -> int:
        return STATUS[self.code]

    def as_body(self) -> dict[str, str | None]:
        """The error object of an answer; `type` and `param` are what OpenAI's clients look for."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        if self.code == "unauthorised":
            kind = "authentication_error"
        elif self.code == "overloaded":
            kind = "rate_limit_error"
        return {"code": self.code, "message": self.message, "type": kind, "param": self.field}
