"""A decision of each kind of action, to be shown and corrected: for tests and browsers."""

from __future__ import annotations

from typing import Any

from decisions.agents.kinds import KINDS, action_schema
from decisions.models import Decision
from tools.factories.decisions import AgentFactory, AgentVersionFactory, DecisionFactory, RewardSpecFactory

ORDER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"enum": ["TODO", "DONE", "LATER"]},
        "title": {"type": "string", "maxLength": 40},
        "note": {"anyOf": [{"type": "string", "maxLength": 5000}, {"type": "null"}]},
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "pieces": {"type": "integer"},
        "urgent": {"type": "boolean"},
        "address": {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]},
        "colours": {"type": "array", "items": {"enum": ["red", "green", "blue"]}},
        "labels": {"type": "array", "items": {"type": "string", "minLength": 2}},
        "sizes": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["status", "title", "share"],
    "additionalProperties": False,
}
TO_CORRECT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "choice": ({"options": ["finance", "travel"]}, {"options": ["finance", "travel"], "action": "finance"}),
    "ranking": (
        {"action_space": "ranking", "options": None},
        {"options": ["tea", "milk", "bread"], "action": ["milk", "tea"]},
    ),
    "structured": (
        {"action_space": "structured", "options": None, "action_schema": ORDER_SCHEMA},
        {
            "options": None,
            "action": {
                "status": "TODO",
                "title": "Order tea",
                "note": None,
                "share": 0.5,
                "pieces": 3,
                "urgent": False,
                "address": {"street": "High Street 1"},
                "colours": ["blue"],
                "labels": ["shop", "kitchen"],
                "sizes": [1, 2],
            },
        },
    ),
    "findings": (
        {"action_space": "structured", "options": None, "action_schema": action_schema(KINDS["LIBRARIAN"])},
        {
            "options": None,
            "state": {
                "newItem": {"id": "i1", "title": "Flights to Oslo"},
                "corpus": [{"id": "d1", "title": "Trains to Oslo"}, {"id": "d2", "title": "Trips"}],
            },
            "action": {
                "findings": [
                    {"type": "CONFLICT", "relatedIds": ["d1"], "description": "Two ways to Oslo.", "confidence": 0.8},
                    {"type": "RELATED", "relatedIds": ["d2"]},
                ]
            },
        },
    ),
    "text": (
        {"action_space": "text", "options": None},
        {"options": None, "action": "We will call you on Monday.\nKind regards"},
    ),
    "tool_calls": (
        {"action_space": "tool_calls", "options": None},
        {
            "options": ["search", "open", "close"],
            "action": [{"name": "search", "arguments": {"query": "tea"}}, {"name": "open", "arguments": {"id": 3}}],
        },
    ),
}
"""By kind: the fields of the agent's version, and those of the decision."""


def make_decision_to_correct(workspace: Any, kind: str) -> Decision:
    """A decision of the kind, by an agent of its own."""
    version, fields = TO_CORRECT[kind]
    agent = AgentFactory(workspace=workspace, slug=kind.replace("_", "-"))
    AgentVersionFactory(agent=agent, **version)
    RewardSpecFactory(agent=agent)
    return DecisionFactory(agent=agent, **fields)
