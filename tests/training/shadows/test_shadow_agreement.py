"""What counts as agreement, by kind of action."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from training.shadows.agreement import is_same_action, kendall_tau

FOUND = {"properties": {"related": {"type": "array"}, "note": {"type": "string", "x-beside": True}}}


@pytest.mark.parametrize(
    ("space", "one", "other", "same"),
    [
        ("text", "On Friday.\n", "On Friday.", True),
        ("text", "On Friday.", "On friday.", False),
        ("text", '{"day": 5.0, "at": "ten"}', '{ "at": "ten", "day": 5 }', True),
        ("text", "5", "5.0", False),  # a number alone is a text
        ("structured", {"related": ["a"], "confidence": 0.4, "note": "x"}, {"related": ["a"]}, True),
        ("structured", {"related": ["a", "b"]}, {"related": ["b", "a"]}, False),
        ("tool_calls", [{"id": "1", "name": "find", "arguments": {"n": 1, "q": "x"}}],
         [{"name": "find", "arguments": {"q": "x", "n": 1.0}}], True),
        ("tool_calls", [{"name": "find", "arguments": {}}], [{"name": "stop", "arguments": {}}], False),
        ("tool_calls", [{"name": "find", "arguments": {}}], [], False),
        ("tool_calls", [{"name": "find", "arguments": {}}], "Found.", False),
        ("tool_calls", "On Friday.\n", "On Friday.", True),
        ("text", [{"id": "1", "name": "find", "arguments": {}}], [{"id": "2", "name": "find", "arguments": {}}], True),
        ("text", [{"name": "find", "arguments": {}}], "Found.", False),
    ],
)  # fmt: skip
def test_actions_that_were_written_are_compared_by_what_they_say(space: str, one: Any, other: Any, same: bool) -> None:
    version: Any = SimpleNamespace(action_space=space, options=None, action_schema=FOUND)
    assert is_same_action(version, one, other) is same is is_same_action(version, other, one)


@pytest.mark.parametrize(
    ("probabilities", "places", "tau"),
    [
        ([0.5, 0.3, 0.2], [0, 1, 2], 1.0),
        ([0.5, 0.3, 0.2], [2, 1, 0], -1.0),
        ([0.5, 0.3, 0.2], [0, 2, 1], 1 / 3),  # two pairs of three
        ([0.1, 0.6, 0.2, 0.1], [1], 1.0),  # nothing is said of the other three
        ([0.1, 0.6, 0.2, 0.1], [0], -2 / 3),  # two before it, and one beside it
        ([0.5, 0.5], [1, 0], 0.0),
    ],
)
def test_kendall_s_tau_is_of_the_pairs_that_the_order_decides(
    probabilities: list[float], places: list[int], tau: float
) -> None:
    assert kendall_tau(probabilities, places) == pytest.approx(tau)
