"""Ids of decisions in the forms that clients have them.

The gateway answers a chat under its decision's id, with a prefix and without dashes. Wherever the id of a decision is
taken (the API's paths, bodies and queries, pages, imports), `read_decision_id` reads it in any of these forms.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

CHAT, RESPONSE, MESSAGE = "chatcmpl-", "resp_", "msg_"
"""What the gateway puts before the id: of a chat completion, of a response, and of the message in it."""
FORM = "(?:chatcmpl-|resp_|msg_)?(?:[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"
"""A regular expression of all forms."""
UUID7 = "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
"""A regular expression of the ids that clients may choose."""
FORMS = "a decision's id, or that of the gateway's answer: chatcmpl-, resp_ or msg_ and 32 hex digits"
"""For a person."""
SCHEMA: Mapping[str, Any] = {
    "type": "string",
    "format": "decision-id",
    "pattern": f"^(?:chatcmpl-|resp_|msg_)?(?:{UUID7}|{UUID7.replace('-[', '[').replace('-7', '7')})$",
}
"""OpenAPI of an id of a decision."""
_WHOLE = re.compile(FORM)


def read_decision_id(text: str) -> uuid.UUID:
    """The decision that an id means, as we write it or as an answer of the gateway has it. Raises ValueError."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not the id of a decision")
    return uuid.UUID(text.removeprefix(CHAT).rpartition("_")[2])


def name_answer(prefix: str, decision: uuid.UUID) -> str:
    """The id under which the gateway answers."""
    return prefix + decision.hex


class DecisionIdConverter:
    """A decision in a path, `<decision:pk>`."""

    regex = FORM

    def to_python(self, value: str) -> uuid.UUID:
        return read_decision_id(value)

    def to_url(self, value: object) -> str:
        return str(value)
