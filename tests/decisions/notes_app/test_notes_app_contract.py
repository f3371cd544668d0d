"""Every path of the notes app on a workspace that has nothing yet: statuses and fields as its contract has them.

First without the app's agents, then with them and no model; last a decision that was judged.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from decisions.agents.services import create_notes_agents
from decisions.notes_app import examples as example
from decisions.notes_app import urls
from tests.decisions.notes_app.notes_requests import FILER, T, judge, recorded
from tools.factories import UserFactory, uuid7

pytestmark = pytest.mark.django_db
COUNTS = {
    "totalDecisions": 0,
    "decisionsWithReward": 0,
    "decisionsWithFeedback": 0,
    "avgReward": None,
    "progressBlocks": 0,
    "progressInCurrentBlock": 0,
    "progressPercentage": 0.0,
    "readyForTraining": False,
}
STORE = {"completedItem": {"id": "item-1", "title": "Flights"}, "targetOpus": {"id": "opus-1", "name": "Travel"}}
WHOLE = {
    "file": {"input": example.STATE, "userId": "user-1"},
    "prioritize": {"input": {"todoItems": example.TODO}, "userId": "user-1"},
    "store": {"input": STORE, "userId": "user-1"},
    "relate": {"input": {"newItem": {"id": "item-1"}, "corpus": []}, "userId": "user-1"},
    "retrieve": {"query": "When?", "parameters": {}, "relevantOpuses": [{"id": "opus-1"}]},
}
LACKING = [
    ("file", {"userId": "user-1"}, "input"),
    ("file", {"input": {}}, "input.item"),
    ("prioritize", {"input": {"todoItems": []}, "userId": "user-1"}, "input.todoItems"),
    ("prioritize", {"input": {}, "userId": "user-1"}, "input.todoItems"),
    ("prioritize", {}, "input"),
    ("store", {"input": {"completedItem": {"id": "item-1"}}, "userId": "user-1"}, "input.targetOpus"),
    ("store", {"input": {"targetOpus": {"id": "opus-1"}}, "userId": "user-1"}, "input.completedItem"),
    ("relate", {"input": {}}, "input.newItem"),
    ("retrieve", {"relevantOpuses": [{"id": "opus-1"}]}, "query"),
    ("retrieve", {"query": "When?"}, "relevantOpuses"),
]
FIVE = "FILER, LIBRARIAN, PRIORITIZER, STORER, RETRIEVER"
NOTHING_DONE = {"success": True, "processed": 0, "updated": 0, "rewardsCalculated": 0, "errors": 0}
MESSAGE = object()
"""Any text."""
CALLS: list[tuple[str, str, Any, int, Any]] = [
    ("GET", "training/decisions", None, 200, []),
    ("POST", "training/decisions", {"decisionIds": []}, 200, {"updated": 0, "decisions": []}),
    ("POST", "training/decisions", {"decisionIds": [str(uuid7())]}, 200, {"updated": 0, "decisions": []}),
    ("POST", "training/decisions", {"decisionIds": "all"}, 400, "decisionIds"),
    ("POST", "training/decisions", {}, 400, "decisionIds"),
    ("POST", "training/calculate-pending", None, 200,
     {"success": True, "processed": 0, "errors": 0, "message": MESSAGE}),
    ("GET", "training/calculate-pending", None, 200, {"pendingRewards": 0, "message": MESSAGE}),
    ("POST", "training/outcomes", {"limit": 100}, 200, NOTHING_DONE),
    ("POST", "training/outcomes", None, 200, NOTHING_DONE),
    ("GET", "training/outcomes", None, 200, {"pendingCount": 0}),
    ("POST", "training/track-outcomes?limit=100", None, 200, NOTHING_DONE | {"message": MESSAGE}),
    ("GET", "training/track-outcomes", None, 200, {"pendingOutcomes": 0, "message": MESSAGE}),
    ("GET", "training/export", None, 200, b""),
    ("GET", "training/export?agentType=FILER&minReward=-2.0&requireReward=true&limit=1000", None, 200, b""),
    ("GET", "training/export-file?agentType=FILER", None, 200, b""),
    ("GET", "training/export-file", None, 400, "agentType"),
    ("GET", "training/export-file?agentType=BARBER", None, 400, "agentType"),
    ("GET", "training/ab-test", None, 400, "agentType"),
    ("GET", "training/ab-test?agentType=FILER", None, 200,
     {"agentType": "FILER", "abTestingEnabled": False, "message": MESSAGE, "versions": []}),
    ("PATCH", f"decisions/{uuid7()}/feedback", {"feedback": "CONFIRMED"}, 404, None),
    ("PATCH", f"decisions/{uuid7()}/feedback", {"feedback": "LIKED"}, 400, "feedback"),
    ("PATCH", "status-changes/change-1/feedback", {"feedback": "CONFIRMED"}, 404, None),
    ("PATCH", "status-changes/change-1/feedback", {"feedback": "LIKED"}, 400, "feedback"),
    ("PATCH", "status-changes/%00/feedback", {"feedback": "CONFIRMED"}, 404, None),
]  # fmt: skip
"""Method, path, body, status, and the answer, the field at fault, or nothing."""


def check(answer: Any, status: int, expected: Any) -> None:
    assert answer.status_code == status, answer.content
    if isinstance(expected, bytes):
        assert b"".join(answer.streaming_content) == expected
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        assert "attachment" in answer.headers["Content-Disposition"]
    elif status >= 400:
        faults = answer.json()["error"]["fields"]
        assert [fault["field"] for fault in faults][:1] == ([] if expected is None else [expected])
        assert expected != "agentType" or FIVE in faults[0]["expected"]
    elif isinstance(expected, dict):
        told = answer.json()
        texts = {name for name, value in expected.items() if value is MESSAGE}
        assert all(isinstance(told[name], str) and told[name] for name in texts)
        assert {name: told[name] for name in told if name not in texts} == {
            name: value for name, value in expected.items() if name not in texts
        }
    else:
        assert answer.json() == expected


@pytest.fixture
def app(api: Any, workspace: Any) -> Any:
    return api("decisions:write", "feedback:write", "export:read", "route:read")


@pytest.mark.parametrize("has_agents", [False, True])
def test_a_new_workspace_answers_as_the_contract_says(
    app: Any, api: Any, by: Any, owner: Any, subtests: Any, has_agents: bool
) -> None:
    kinds = {agent.kind for agent in create_notes_agents(by=by)} if has_agents else set()
    for method, path, body, status, expected in CALLS:
        with subtests.test(f"{method} {path} {json.dumps(body)}"):
            check(app.request(method, f"/api/{path}", body), status, expected)
    with subtests.test("stats"):
        told = app.get(f"{T}/stats").json()
        assert told.pop("byAgentType") == dict.fromkeys(kinds, COUNTS)
        assert told == COUNTS
    code, status = ("no_champion", 409) if has_agents else ("unknown_agent", 404)
    for name, body in WHOLE.items():
        with subtests.test(f"ai/{name}, which nobody can answer"):
            refused = app.post(f"/api/ai/{name}", body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
    for name, body, place in LACKING:
        with subtests.test(f"ai/{name} without {place}"):
            check(app.post(f"/api/ai/{name}", body), 400, place)
    with subtests.test("ai for another user"):
        other = str(UserFactory().pk)
        for name, body in WHOLE.items():
            assert api.person(owner).post(f"/api/ai/{name}", body | {"userId": other}).status_code == 401
    with subtests.test("every path was asked"):
        asked = {path.partition("?")[0].split("/")[-1] for _, path, *_ in CALLS} | WHOLE.keys() | {"stats", "record"}
        assert {str(one.pattern).split("/")[-1] for one in urls.urlpatterns} == asked


def test_one_version_is_no_test_and_has_its_name_description_and_weight(app: Any, by: Any) -> None:
    create_notes_agents(by=by)
    made = recorded(app)
    assert made["id"] and made["userFeedback"] is None
    assert judge(app, made, "CONFIRMED").json()["userFeedback"] == "CONFIRMED"
    told = app.get(f"{T}/ab-test?agentType=FILER").json()
    assert told["message"] and told["abTestingEnabled"] is False
    assert told["versions"] == [{"version": FILER["modelVersion"], "description": "", "weight": 0.0}]
