"""What fields of recorded items must be given together, for the OpenAPI document; the services refuse what differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from decisions.ingest.schemas import FeedbackIn
from decisions.ingest.step_schemas import StepIn
from decisions.models import Verdict

NULL: Mapping[str, Any] = {"type": "null"}
GIVEN: Mapping[str, Any] = {"not": NULL}
TARGETS = ("decision_id", "episode_id", "unit")
CORRECTING = {
    "properties": {"metric": {"const": "verdict"}, "value": {"enum": ["corrected", "overridden"]}},
    "required": ["decision_id"],
}
JUDGING = {
    "properties": {"metric": {"const": "verdict"}, "value": {"enum": Verdict.values}, "correction": NULL},
}
MEASURING = {
    "properties": {
        "metric": {"pattern": r"^(?!(verdict|correction|corrected_action)$|measured\.)"},
        "correction": NULL,
    },
}


def _only(name: str) -> dict[str, Any]:
    """This target given, the others not, or null."""
    others = {other: NULL for other in TARGETS if other != name}
    return {"required": [name], "properties": {name: GIVEN, **others}}


TOGETHER: Mapping[type, Mapping[str, Any]] = {
    FeedbackIn: {
        "allOf": [{"oneOf": [_only(name) for name in TARGETS]}, {"anyOf": [CORRECTING, JUDGING, MEASURING]}],
    },
    StepIn: {
        "allOf": [
            {
                "anyOf": [
                    {
                        "required": ["decision_id"],
                        "properties": {"decision_id": GIVEN, "agent": NULL, "episode": NULL},
                    },
                    {"required": ["agent", "episode"], "properties": {"agent": GIVEN, "episode": GIVEN}},
                ]
            },
            {"anyOf": [{"properties": {"error": {"const": ""}}}, {"properties": {"success": {"enum": [False, None]}}}]},
        ]
    },
}
"""By item."""
