"""What counts when two structured actions are compared: the fields that decide, for every kind of agent."""

from __future__ import annotations

from typing import Any

import pytest

from decisions.agents.services import create_notes_agents
from decisions.models import Agent
from decisions.rewards.components import COMPONENTS, Facts
from training.engine.spec.compared import PLAIN
from training.rows.decision_fields import find_compared

CONTENT = {"integrationDecision": "INTEGRATE", "method": "MERGE", "location": "Flights"}


@pytest.mark.django_db
def test_every_kind_compares_what_it_decided_and_not_what_it_said_of_it(by: Any) -> None:
    create_notes_agents(by=by)
    of = {agent.kind: find_compared(agent) for agent in Agent.objects.filter(workspace=by.workspace)}
    same: list[tuple[str, Any, Any]] = [
        ("FILER", {"status": "TODO", "labels": ["a"], "priority": None}, {"status": "TODO", "confidence": 0.5}),
        ("PRIORITIZER", {"recommended_item_id": "a", "alternatives": [{"item_id": "b"}]}, {"recommended_item_id": "a"}),
        ("STORER", CONTENT | {"suggestedContent": "Book."}, CONTENT | {"reasoning": "It fits."}),
        (
            "LIBRARIAN",
            {"findings": [{"type": "RELATED", "relatedIds": ["a", "b"]}, {"type": "CONFLICT", "relatedIds": ["c"]}]},
            {
                "findings": [
                    {"type": "CONFLICT", "relatedIds": ["c"], "description": "Twice.", "confidence": 0.1},
                    {"type": "RELATED", "relatedIds": ["b", "a"]},
                ]
            },
        ),
        (
            "RETRIEVER",
            {"generatedContent": "One.", "sourceCitations": ["b", {"opusId": "a", "quote": "Q."}]},
            {"generatedContent": "Two.", "sourceCitations": ["a", "b"], "confidence": 1.0},
        ),
    ]
    differ: list[tuple[str, Any, Any]] = [
        ("FILER", {"status": "TODO"}, {"status": "TRASH"}),
        ("PRIORITIZER", {"recommended_item_id": "a"}, {"recommended_item_id": "b"}),
        ("STORER", CONTENT, CONTENT | {"method": "APPEND"}),
        (
            "LIBRARIAN",
            {"findings": [{"type": "RELATED", "relatedIds": ["a"]}]},
            {"findings": [{"type": "CONFLICT", "relatedIds": ["a"]}]},
        ),
        ("RETRIEVER", {"generatedContent": "One.", "sourceCitations": ["a"]}, {"generatedContent": "One."}),
        ("RETRIEVER", {"generatedContent": "One.", "sourceCitations": ["a"]}, None),
    ]
    assert {kind for kind, _, _ in same} == {kind for kind, _, _ in differ} == set(of)
    for kind, one, other in same:
        assert of[kind].is_same(one, other) and of[kind].is_same(other, one), kind
    for kind, one, other in differ:
        assert not of[kind].is_same(one, other) and not of[kind].is_same(other, one), kind


def test_lists_keep_their_order_and_an_action_without_deciding_fields_is_compared_as_a_whole() -> None:
    assert not PLAIN.is_same({"steps": ["a", "b"]}, {"steps": ["b", "a"]})
    assert PLAIN.is_same([{"confidence": 1}], [{"confidence": 1}])
    assert not PLAIN.is_same([{"confidence": 1}], [{"confidence": 2}])  # the argument of a tool
    assert not PLAIN.is_same({"reasoning": "a"}, {"reasoning": "b"})


def test_the_reward_of_a_known_answer_does_not_read_how_sure_an_action_is() -> None:
    component = COMPONENTS["matches_answer"]
    right = {"team": "tax", "confidence": 1.0}
    for action, worth in (
        ({"team": "tax", "reasoning": "It says so."}, 1.0),
        ({"team": "law", "confidence": 1.0}, 0.0),
    ):
        assert component.function(Facts(action=action, answer=right), component.parameters) == worth
