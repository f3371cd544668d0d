"""Other systems' outputs as actions of an agent's space."""

from __future__ import annotations

from typing import Any

import pytest

from decisions.importers.running import fit_action
from decisions.ingest.schemas import DecisionIn

CALLS = [{"name": "look", "arguments": {"at": "Oslo"}}]


@pytest.mark.parametrize(
    ("space", "output", "action"),
    [
        ("text", "It rains.", "It rains."),
        ("tool_calls", "It rains.", "It rains."),
        ("text", CALLS, CALLS),
        ("tool_calls", CALLS, CALLS),
        ("text", {"rain": True}, '{"rain":true}'),
        ("tool_calls", {"rain": True}, '{"rain":true}'),
        ("text", ["a", "b"], '["a","b"]'),
        ("tool_calls", ["a", "b"], ["a", "b"]),  # which the ledger refuses
        ("structured", {"rain": True}, {"rain": True}),
    ],
)
def test_words_stay_words_and_calls_stay_calls_for_whoever_chats(space: str, output: Any, action: Any) -> None:
    assert fit_action(DecisionIn(agent="a", state={}, action=output), space).action == action
