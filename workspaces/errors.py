"""Errors of requests, as exceptions. Each app subclasses these; `api_errors` maps them to HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldFault:
    """One fault of one field: where (`options[2]`), why, and what would be right."""

    field: str
    reason: str
    expected: str = ""

    @property
    def says(self) -> str:
        """Without the field, for a page that shows it there."""
        return f"{self.reason}; expected: {self.expected}" if self.expected else self.reason


class ReckonerError(Exception):
    """Base of every error that a client may see. `code` is stable; `message` is for a person."""

    status = 400
    code = "bad_request"

    def __init__(self, message: str, *, faults: Sequence[FieldFault] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.faults = tuple(faults)


class InvalidInput(ReckonerError):
    code = "invalid_input"


class NotAllowed(ReckonerError):
    status = 403
    code = "not_allowed"


class NotFound(ReckonerError):
    status = 404
    code = "not_found"


class Conflict(ReckonerError):
    status = 409
    code = "conflict"


class KeyNotLive(Conflict):
    code = "key_not_live"


class InFlight(Conflict):
    """The first request with this Idempotency-Key has no answer yet."""

    code = "request_in_flight"


class KeyReused(ReckonerError):
    """An Idempotency-Key that stands for another request."""

    status = 422
    code = "idempotency_key_reused"


class LengthRequired(ReckonerError):
    status = 411
    code = "length_required"


class TooLarge(ReckonerError):
    status = 413
    code = "too_large"


class UnsupportedEncoding(ReckonerError):
    status = 415
    code = "unsupported_encoding"


class TooManyRequests(ReckonerError):
    """`wait`: seconds until the next one is taken. `limit`: how many are taken in a minute, where that is why."""

    status = 429
    code = "too_many_requests"

    def __init__(self, message: str, *, wait: int, faults: Sequence[FieldFault] = (), limit: int | None = None) -> None:
        super().__init__(message, faults=faults)
        self.wait = wait
        self.limit = limit


class Unavailable(ReckonerError):
    """The server cannot right now; the same request may be sent again."""

    status = 503
    code = "unavailable"


class DiskFull(ReckonerError):
    """The server's disk, or the database's, has no space. The same request may be sent again later."""

    status = 507
    code = "disk_full"
