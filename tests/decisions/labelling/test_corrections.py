"""The right action that a verdict names: with the label that wrote it, or with the feedback itself."""

from __future__ import annotations

import re
from typing import Any

import pytest

from decisions.agents.canonical import canonical
from decisions.agents.chat_actions import canonical_action
from decisions.labelling.labels import label_decision, withdraw_label
from decisions.models import Decision, Feedback, Label
from decisions.models.verdicts import find_correction, find_verdict
from tools.actions import TO_CORRECT, make_decision_to_correct
from tools.factories import DecisionFactory
from workspaces.access.actors import person
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db
RIGHT = {
    "choice": "travel",
    "ranking": ["tea", "milk", "bread"],
    "structured": TO_CORRECT["structured"][1]["action"] | {"share": 0.25},
    "findings": {"findings": []},
    "text": "Call them.",
    "tool_calls": [],
}


def correction_of(decision: Decision) -> Any:
    fresh = Decision.objects.get(id=decision.id)
    return find_correction(find_verdict(fresh), fresh.labels.all())


def faults_of(answer: Any) -> list[tuple[str, str]]:
    assert answer.status_code == 400, answer.content
    return [(fault["field"], fault["reason"]) for fault in answer.json()["error"]["fields"]]


def test_the_correction_is_that_of_the_verdict_that_counts(agent: Any, labeller: Any, workspace: Any) -> None:
    by = person(labeller, workspace, "labeller")
    decision = DecisionFactory(agent=agent, action="travel")
    assert correction_of(decision) is None
    label_decision(by=by, decision=decision, verdict="corrected", corrected_action="health")
    assert correction_of(decision) == "health"
    label_decision(by=by, decision=decision, verdict="corrected")
    assert correction_of(decision) is None
    withdraw_label(by=by, decision=decision)
    assert correction_of(decision) == "health"


def test_a_correction_comes_with_its_verdict_and_goes_with_it(agent: Any, api: Any) -> None:
    decision = DecisionFactory(agent=agent, action="travel")
    client = api("feedback:write", "export:read")
    sent = {"metric": "verdict", "value": "corrected", "decision_id": str(decision.id), "correction": "health"}
    assert client.post("feedback", sent).status_code == 201
    assert not Label.objects.exists()
    assert correction_of(decision) == "health"
    [shown] = client.get(f"decisions/{decision.id}").json()["feedback"]
    assert (shown["value"], shown["correction"]) == ("corrected", "health")
    assert client.post("feedback", sent | {"value": "overridden", "correction": "finance"}).status_code == 201
    assert correction_of(decision) == "finance"
    assert client.post("feedback", sent | {"value": "confirmed", "correction": None}).status_code == 201
    assert correction_of(decision) is None


def test_a_correction_that_does_not_fit_is_refused_and_nothing_is_kept(agent: Any, api: Any) -> None:
    decision = DecisionFactory(agent=agent, action="travel")
    client = api("feedback:write")
    sent = {"metric": "verdict", "value": "corrected", "decision_id": str(decision.id), "correction": "health"}
    for more, field in (
        ({"correction": "gardening"}, "correction"),
        ({"correction": "travel"}, "correction"),
        ({"correction": {"action": "health"}}, "correction"),
        ({"value": "confirmed"}, "correction"),
        ({"metric": "helpful", "value": 1}, "correction"),
        ({"decision_id": None, "unit": "item-1"}, "correction"),
        ({"decision_id": str(uuid7())}, "decision_id"),
        ({"metric": "correction", "value": "health", "correction": None}, "metric"),
        ({"metric": "corrected_action", "value": "health", "correction": None}, "metric"),
    ):
        assert {name for name, _ in faults_of(client.post("feedback", sent | more))} == {field}, more
    assert not Feedback.objects.exists()
    batch = client.post("feedback", [sent | {"correction": "gardening"}, sent])
    assert batch.status_code == 207
    assert [error["index"] for error in batch.json()["errors"]] == [0]
    assert Feedback.objects.get().correction == "health"


def test_every_kind_of_action_takes_its_own_corrections(api: Any, workspace: Any) -> None:
    client = api("feedback:write")
    for kind, right in RIGHT.items():
        decision = make_decision_to_correct(workspace, kind)
        sent = {"metric": "verdict", "value": "overridden", "decision_id": str(decision.id)}
        for wrong in (17, False, {"findings": 3}, [{"name": 1}], decision.action):
            faults = faults_of(client.post("feedback", sent | {"correction": wrong}))
            assert {re.split(r"[.[]", name)[0] for name, _ in faults} == {"correction"}, (kind, wrong)
        assert client.post("feedback", sent | {"correction": right}).status_code == 201
        assert correction_of(decision) == right


def test_equal_json_is_one_text() -> None:
    assert canonical({"b": [1.0, "ä"], "a": None}) == canonical({"a": None, "b": [1, "ä"]}) == '{"a":null,"b":[1,"ä"]}'
    assert len({canonical(one) for one in ([1, 2], [2, 1], [True, 2], ["1", 2], [1.5, 2])}) == 5


def test_calls_are_the_same_whatever_ids_their_server_gave_them():
    call = {"name": "find", "arguments": {"id": 3}}
    assert canonical_action([call | {"id": "call_1"}]) == canonical_action([call]) == canonical([call])
    assert canonical_action([call]) != canonical_action([call | {"arguments": {"id": 4}}])
    for other in ("words", [], {"id": 3}, [{"id": 3}], ["a"], None):
        assert canonical_action(other) == canonical(other)
