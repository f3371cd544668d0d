"""Reads the API's answers: of a whole request, and of each item of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from reckoner_client.errors import Faults, Refused, Unavailable

# The server, or something in front of it, cannot take it now; the same will do later.
LATER = frozenset({408, 425, 429, 502, 503, 504, 507})


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `retry_after`: seconds that the server asked to wait, 0 to 300."""

    status: int
    body: bytes
    retry_after: float = 0.0


class Fault(msgspec.Struct):
    """Why a request was refused, or the item at `index` of a batch."""

    code: str = "unknown"
    message: str = ""
    fields: Faults = ()
    request_id: str | None = None
    index: int = -1


class _Envelope(msgspec.Struct):
    error: Fault


class Outcome(msgspec.Struct):
    """A batch's answer. `kept` must be there: whatever else may answer 201 acknowledges nothing."""

    kept: list[msgspec.Raw]
    errors: list[Fault] = []


def refused(reply: Reply) -> Refused:
    """The API's error envelope as an exception; of an answer without one, its beginning."""
    try:
        error = decode(reply.body, _Envelope).error
    except Unavailable:
        error = Fault(message=f"an answer that is not Reckoner's: {reply.body[:200].decode('utf-8', 'replace')}")
    return Refused(reply.status, error.code, error.message, error.fields, error.request_id)


def read_outcome(reply: Reply, count: int) -> Outcome | None:
    """What became of `count` items; None when the answer does not account for each of them."""
    try:
        outcome: Outcome = decode(reply.body if reply.status in {201, 207} else b"", Outcome)
    except Unavailable:
        return None
    complete = len(outcome.kept) + len(outcome.errors) == count
    return outcome if complete and all(0 <= error.index < count for error in outcome.errors) else None


def is_about_items(reply: Reply) -> bool:
    """Whether an answer below 500 without an outcome refuses what was sent.

    Else it is about the key or the address, and other items would get the same: a refused key (401, 403), a path that
    is none (404, a redirect), somebody's page (200, 400 without our envelope).
    """
    return reply.status in {409, 413, 422} or (reply.status == 400 and refused(reply).code != "unknown")


def decode(body: bytes, kind: Any) -> Any:
    """JSON as `kind`. Raises Unavailable: an answer that cannot be read is none."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable(f"The answer is not what the API answers: {error}") from error
