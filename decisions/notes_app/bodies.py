"""OpenAPI of the bodies that the notes app sends, which `decisions.notes_app.api` and `.ai` read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from decisions.agents.kinds import FIVE, KINDS, state_schema
from decisions.models import Verdict

ANY_OBJECT = {"type": "object", "additionalProperties": True}
TEXT_OR_NULL = {"type": ["string", "null"], "minLength": 1, "maxLength": 200}


def _body(fields: Mapping[str, Any], needed: Sequence[str], *, more: bool = False) -> dict[str, Any]:
    described = {"type": "object", "properties": dict(fields), "required": list(needed), "additionalProperties": more}
    return {"application/json": described}


def asked_body(kind: str) -> dict[str, Any]:
    """The input of the agent of a kind."""
    return _body({"input": state_schema(KINDS[kind]), "userId": TEXT_OR_NULL}, ["input"])


def retrieved_body() -> dict[str, Any]:
    """The input of RETRIEVER, which is the body itself."""
    state = state_schema(KINDS["RETRIEVER"])
    # The path wants a list, where the agent would do without.
    opuses = next(part for part in state["properties"]["relevantOpuses"]["anyOf"] if part["type"] == "array")
    fields = {**state["properties"], "relevantOpuses": opuses, "userId": TEXT_OR_NULL}
    return _body(fields, list(dict.fromkeys(["relevantOpuses", *state["required"]])), more=True)


RECORDED = _body(
    {
        "agentType": {"type": "string", "enum": list(FIVE)},
        "state": ANY_OBJECT,
        "action": {},
        "modelVersion": {"type": "string", "minLength": 1, "maxLength": 200},
        **dict.fromkeys(("itemId", "opusId", "userId"), TEXT_OR_NULL),
        "confidence": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "reasoning": {"type": ["string", "null"], "maxLength": 200_000},
        "alternativeActions": {"type": ["array", "null"], "items": {}, "maxItems": 10_000},
        "nextState": {"type": ["object", "null"], "additionalProperties": True},
    },
    ["agentType", "state", "action", "modelVersion"],
)
VERDICT = _body(
    {
        "feedback": {"type": "string", "enum": [name.upper() for name in Verdict.values]},
        "correction": {},
        "userId": {"type": ["string", "null"]},
    },
    ["feedback"],
)


def ids_body(most: int) -> dict[str, Any]:
    """Ids of decisions."""
    return _body(
        {"decisionIds": {"type": "array", "items": {"type": "string"}, "maxItems": most}}, ["decisionIds"], more=True
    )


def limit_body() -> dict[str, Any]:
    return _body({"limit": {"type": ["integer", "null"], "minimum": 1, "maximum": 2**31 - 1}}, [], more=True)
