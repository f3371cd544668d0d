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
from tools.factories import AgentFactory, AgentVersionFactory, DecisionFactory
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


WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
REFUSED_CALLS = [
    ({"town": "X"}, {("[0].arguments.city", "is missing")}),
    ({"city": 3}, {("[0].arguments.city", '3 is not of type "string"')}),
]


def chat_with_tools(workspace: Any, parameters: Any, **version: Any) -> Decision:
    state = {"input": "Rain?", "messages": [{"role": "user", "content": "Rain?"}]}
    if parameters is not None:
        state["tools"] = [{"type": "function", "function": {"name": "weather", "parameters": parameters}}]
    agent = AgentFactory(workspace=workspace, slug="helper", kind="CUSTOM")
    AgentVersionFactory(agent=agent, action_space="text", options=None, **version)
    return DecisionFactory(agent=agent, state=state, action="No.", options=["weather"], propensity=None)


@pytest.mark.parametrize("own", [False, True], ids=["the chat's", "the agent's"])
def test_calls_of_a_correction_take_what_their_tools_take(api: Any, workspace: Any, own: bool) -> None:
    schema = {"action_schema": {"properties": {"weather": WEATHER}}}
    decision = chat_with_tools(workspace, None, **schema) if own else chat_with_tools(workspace, WEATHER)
    client = api("feedback:write")
    said = {"metric": "verdict", "value": "corrected", "decision_id": str(decision.id)}
    for arguments, faults in REFUSED_CALLS:
        calls = [{"name": "weather", "arguments": arguments}]
        found = set(faults_of(client.post("feedback", said | {"correction": calls})))
        assert found == {(f"correction{place}", reason) for place, reason in faults}
        label = {"verdict": "corrected", "corrected_action": calls}
        assert {reason for _, reason in faults_of(client.post(f"decisions/{decision.id}/labels", label))} == {
            reason for _, reason in faults
        }
    right = [{"name": "weather", "arguments": {"city": "Oslo"}}]
    assert client.post("feedback", said | {"correction": right}).status_code == 201


@pytest.mark.parametrize("parameters", [{"type": "nonsense"}, {"$ref": "http://10.0.0.1/"}, {}])
def test_a_client_s_schema_that_checks_nothing_refuses_nothing(api: Any, workspace: Any, parameters: Any) -> None:
    decision = chat_with_tools(workspace, parameters)
    calls = [{"name": "weather", "arguments": {"town": "X"}}]
    said = {"metric": "verdict", "value": "corrected", "decision_id": str(decision.id), "correction": calls}
    assert api("feedback:write").post("feedback", said).status_code == 201


def test_equal_json_is_one_text() -> None:
    assert canonical({"b": [1.0, "ä"], "a": None}) == canonical({"a": None, "b": [1, "ä"]}) == '{"a":null,"b":[1,"ä"]}'
    assert len({canonical(one) for one in ([1, 2], [2, 1], [True, 2], ["1", 2], [1.5, 2])}) == 5


def test_calls_are_the_same_whatever_ids_their_server_gave_them():
    call = {"name": "find", "arguments": {"id": 3}}
    assert canonical_action([call | {"id": "call_1"}]) == canonical_action([call]) == canonical([call])
    assert canonical_action([call]) != canonical_action([call | {"arguments": {"id": 4}}])
    for other in ("words", [], {"id": 3}, [{"id": 3}], ["a"], None):
        assert canonical_action(other) == canonical(other)
