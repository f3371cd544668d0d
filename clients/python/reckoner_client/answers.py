"""What an answer to a batch says: what became of each item, or nothing about them."""

from __future__ import annotations

import msgspec

from reckoner_client.transport import Reply, refused

__all__ = ["Outcome", "read_outcome", "says_nothing"]


class ItemError(msgspec.Struct):
    index: int
    code: str
    fields: list[dict[str, str]] = []


class Outcome(msgspec.Struct):
    """A batch's answer. `kept` must be there: whatever else may answer 201 acknowledges nothing."""

    kept: list[msgspec.Raw]
    errors: list[ItemError] = []


def read_outcome(reply: Reply, count: int) -> Outcome | None:
    """What became of `count` items; None when the answer does not account for each of them."""
    if reply.status not in {201, 207}:
        return None
    try:
        outcome = _answers.decode(reply.body)
    except msgspec.DecodeError:
        return None
    complete = len(outcome.kept) + len(outcome.errors) == count
    return outcome if complete and all(0 <= error.index < count for error in outcome.errors) else None


def says_nothing(reply: Reply, count: int) -> bool:
    """Whether an answer is about the key or the address and not about the items: other items would get the same.

    A refused key (401, 403), a path that is none (404, a redirect), somebody's page (200, 400 without our envelope).
    """
    if reply.status >= 500 or reply.status in {409, 413, 422}:
        return False
    if reply.status == 400:
        return refused(reply).code == "unknown"
    return read_outcome(reply, count) is None


_answers = msgspec.json.Decoder(Outcome)
