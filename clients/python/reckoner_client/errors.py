"""What can be wrong. Recording never raises these into the host; set-up and the calls that wait for an answer do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec


class ReckonerError(Exception):
    """Whatever this package raises."""


class ConfigurationError(ReckonerError):
    """A mistake in the set-up, said when it is made: no address, no key, nothing to hook into."""


class Unavailable(ReckonerError):
    """No usable answer came in time. Nothing is known about the call; the same call with the same id is harmless."""


class FieldFault(msgspec.Struct, frozen=True):
    """What is wrong with one field, as the API says it."""

    field: str = ""
    reason: str = ""
    expected: str = ""


class Refused(ReckonerError):
    """The API answered, and would answer the same again. `code` is stable, see docs/api.md."""

    def __init__(
        self, status: int, code: str, message: str, fields: tuple[FieldFault, ...] = (), request_id: str | None = None
    ) -> None:
        faults = "; ".join(f"{fault.field}: {fault.reason}" for fault in fields)
        super().__init__(f"{status} {code}: {message}" + (f" ({faults})" if faults else ""))
        self.status, self.code, self.message, self.fields, self.request_id = status, code, message, fields, request_id


@dataclass(frozen=True, slots=True)
class Refusal:
    """One recorded item that the API did not keep, for `on_refused`. It is not sent again.

    `kind` is "decisions", "feedback" or another endpoint's name; `item` is what was sent; `status` is the HTTP status
    of the answer (207 when others of its batch were kept).
    """

    kind: str
    id: str
    item: Any
    status: int
    code: str
    message: str
    fields: tuple[FieldFault, ...]
