"""Errors of the client. Recording never raises these; set-up and the calls that wait for an answer do."""

from __future__ import annotations

from typing import Any

Faults = tuple[dict[str, Any], ...]  # with `field`, `reason` and `expected`, as the API says them


class ReckonerError(Exception):
    """Whatever this package raises."""


class ConfigurationError(ReckonerError):
    """A mistake in the set-up, said when it is made: no address, no key, nothing to hook into."""


class Unavailable(ReckonerError):
    """No usable answer came in time. Nothing is known about the call; the same call with the same id is harmless."""


class Refused(ReckonerError):
    """The API answered, and would answer the same again. `code` is stable, see docs/api.md.

    `on_refused` gets one for each recorded item that the API did not keep, which is not sent again: `kind` is then
    "decisions", "feedback" or another endpoint's name, `item` what was sent, and `status` 207 when others of its batch
    were kept.
    """

    kind = ""
    item: Any = None

    def __init__(
        self, status: int, code: str, message: str, fields: Faults = (), request_id: str | None = None
    ) -> None:
        self.status, self.code, self.message, self.fields, self.request_id = status, code, message, fields, request_id
        faults = "; ".join(f"{fault.get('field', '')} {fault.get('reason', '')}".strip() for fault in fields)
        super().__init__(f"{status} {code}: {message}" + (f" ({faults})" if faults else ""))
