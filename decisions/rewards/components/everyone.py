"""Components for agents of any kind: the verdict, calibration, and of fresh decisions equality with a known answer and
the form of what was written. PURE."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from decisions.rewards.components.component import Component, Parameters
from decisions.rewards.components.facts import ComponentError, Facts

VERDICT_VALUES: Mapping[str, float] = {"confirmed": 1.0, "corrected": -0.5, "overridden": -0.8, "ignored": 0.0}
"""What one verdict is worth before weighting, for every agent (docs/rewards.md)."""


def verdict_value(facts: Facts, parameters: Parameters) -> float | None:
    """+1 confirmed, −0.5 corrected, −0.8 overridden, 0 ignored; None before any verdict (docs/rewards.md)."""
    verdict = facts.verdict
    if verdict is None:
        return None
    try:
        return VERDICT_VALUES[verdict]
    except (KeyError, TypeError):
        raise ComponentError(f"unknown verdict {verdict}; known: {', '.join(VERDICT_VALUES)}") from None


def calibration(facts: Facts, parameters: Parameters) -> float | None:
    """−|confidence − correct| in [−1, 0], where correct is 1 for a confirmed decision and 0 otherwise; None where no
    confidence was stated."""
    verdict = facts.verdict
    if verdict is None or verdict == "ignored" or facts.confidence is None:
        return None
    if not 0.0 <= facts.confidence <= 1.0:
        raise ComponentError(f"confidence {facts.confidence} must be from 0 to 1")
    return -abs(facts.confidence - (1.0 if verdict == "confirmed" else 0.0))


BESIDE = ("confidence", "reasoning")
"""Fields of an action that say how sure it is, and why."""


def matches_answer(facts: Facts, parameters: Parameters) -> float | None:
    """`right` when the action equals the known answer, else `wrong`. An object's `confidence` and `reasoning` do not
    count."""
    if facts.answer is None:
        raise ComponentError("no answer is known for this decision")
    if facts.action is None:
        raise ComponentError("the decision has no action")
    return float(parameters["right"] if _decided(facts.action) == _decided(facts.answer) else parameters["wrong"])


def _decided(action: Any) -> Any:
    if not isinstance(action, dict):
        return action
    return {name: value for name, value in action.items() if name not in BESIDE} or action


def read_json(text: str) -> dict[str, Any] | list[Any] | None:
    """The object or list that the text is; None for other texts, numbers and words among them."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def valid_json(facts: Facts, parameters: Parameters) -> float | None:
    """`valid` when the text that was written is a JSON object or list, else `invalid`."""
    if facts.completion is None:
        raise ComponentError("no text was written")
    return float(parameters["valid"] if read_json(facts.completion) is not None else parameters["invalid"])


COMPONENTS = (
    Component(
        "verdict",
        "immediate",
        verdict_value,
        "what a person said of the decision",
        min(VERDICT_VALUES.values()),
        max(VERDICT_VALUES.values()),
        metrics=("verdict",),
        right=VERDICT_VALUES["confirmed"],
        wrong=VERDICT_VALUES["corrected"],
    ),
    Component(
        "calibration",
        "immediate",
        calibration,
        "how far stated confidence was from being right",
        -1.0,
        0.0,
        weight=0.1,
        metrics=("verdict",),
    ),
)
FRESH_ONLY = (
    Component(
        "matches_answer",
        "immediate",
        matches_answer,
        "equality with a known answer, on fresh decisions",
        0.0,
        1.0,
        right=1.0,
        wrong=0.0,
        binary=True,
        parameters={"right": 1.0, "wrong": 0.0},
    ),
    Component(
        "valid_json",
        "immediate",
        valid_json,
        "whether a fresh text is JSON",
        0.0,
        1.0,
        reads=frozenset({"content"}),
        binary=True,
        parameters={"valid": 1.0, "invalid": 0.0},
    ),
)
"""Not for the ledger, which knows no answers and holds no text that a model has just written."""
