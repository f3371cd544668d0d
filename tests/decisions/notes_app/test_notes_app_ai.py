"""The notes app's /api/ai/*: its agents decide, as that app asks and reads. On servers that answer as they are told."""

import json

import pytest
from django.test import Client

from decisions.models import Decision
from decisions.notes_app import examples as example
from models_registry.models import Call
from models_registry.versions.services import NewVersion, register_version
from tests.decisions.notes_app.notes_requests import KEY
from tools.factories import BackendFactory, DeploymentFactory

pytestmark = pytest.mark.django_db
ASKED = {
    "file": {"input": example.STATE, "userId": "user-1"},
    "prioritize": {"input": {"todoItems": example.TODO, "userContext": {"energy": "low"}}, "userId": "user-1"},
    "store": {
        "input": {
            "completedItem": {"id": "item-1", "title": "Book flights"},
            "targetOpus": {"id": "opus-1", "name": "Travel"},
        },
        "userId": "user-1",
    },
    "relate": {"input": {"newItem": {"id": "item-1"}, "corpus": [{"id": "item-2"}]}, "userId": "user-1"},
    "retrieve": {"query": "When do we fly?", "relevantOpuses": [{"id": "opus-1"}], "userId": "user-1"},
}
SAYS = {
    "file": '{"choice": "{\\"priority\\":\\"HIGH\\",\\"status\\":\\"TODO\\",\\"swimlane\\":\\"PROJECT\\"}"}',
    "prioritize": '{"recommended_item_id":"item-1"}',
    "store": {name: value for name, value in example.STORED.items() if name != "decisionId" and value is not None},
    "relate": {name: value for name, value in example.RELATED.items() if name != "decisionId"},
    "retrieve": {name: value for name, value in example.RETRIEVED.items() if name != "decisionId"},
}
KIND_OF = {
    "file": "FILER",
    "prioritize": "PRIORITIZER",
    "store": "STORER",
    "relate": "LIBRARIAN",
    "retrieve": "RETRIEVER",
}
SHOWN = {
    "file": example.FILED,
    "prioritize": example.PRIORITIZED,
    "store": example.STORED,
    "relate": example.RELATED,
    "retrieve": example.RETRIEVED,
}


@pytest.fixture
def model(agents, by, serve):
    """A server that decides for all five agents, each by a remote version of its own."""
    server = serve()
    backend = BackendFactory(workspace=by.workspace, url=server.url, retries=0, capabilities=["json_schema"])
    for agent in agents.values():
        new = NewVersion(remote_name="gpt", method="remote")
        version = register_version(by=by, model=agent.registered_model, new=new)
        DeploymentFactory(version=version, backend=backend)
    return server


@pytest.fixture
def app(api, agents):
    return api("route:read")


def test_the_agents_answer_in_the_app_s_shapes_and_their_decisions_are_recorded(app, model):
    for name, asked in ASKED.items():
        model.pick = SAYS[name] if isinstance(SAYS[name], str) else json.dumps(SAYS[name])
        answer = app.post(f"/api/ai/{name}", asked)
        assert answer.status_code == 200, answer.content
        told = answer.json()
        assert set(told) == set(SHOWN[name])
        row = Decision.objects.get(id=told["decisionId"])
        assert (row.agent.kind, row.user_ref) == (KIND_OF[name], "user-1")
        assert Call.objects.get(id=row.id).state == "answered"
        assert row.state == asked.get("input", {key: asked[key] for key in asked if key != "userId"})
        assert row.unit == {"user": "user-1", "item": "item-1"}[row.agent.unit]
        if name in {"store", "relate", "retrieve"}:
            assert told == SHOWN[name] | {"decisionId": told["decisionId"]}
            assert (row.propensity, row.confidence, row.reasoning) == (None, 0.8, "The section lists flights.")
        else:
            assert row.propensity > 0 and row.alternatives
            assert (told["confidence"], told["reasoning"]) == (None, None)


def test_the_next_items_are_alternatives_and_the_chosen_one_is_what_the_decision_is_about(app, model):
    model.pick = '{"recommended_item_id":"item-2"}'
    items = [{"id": f"item-{n}"} for n in range(1, 7)]
    told = app.post("/api/ai/prioritize", {"input": {"todoItems": items}, "userId": "user-1"}).json()
    row = Decision.objects.get()
    assert row.item_ref == row.action["recommended_item_id"] == told["recommended_item_id"]
    assert len(told["alternatives"]) == 3
    shares = {one["action"]["recommended_item_id"]: one["probability"] for one in row.alternatives}
    assert all(one["confidence"] == shares[one["item_id"]] for one in told["alternatives"])
    assert told["recommended_item_id"] not in {one["item_id"] for one in told["alternatives"]}


WRONG = [
    ("prioritize", {"input": {"todoItems": []}}, "input.todoItems"),
    ("prioritize", {"input": {}}, "input.todoItems"),
    ("store", {"input": {"completedItem": {}}}, "input.targetOpus"),
    ("file", {"userId": "user-1"}, "input"),
    ("file", {"input": {"item": {}}, "user": "user-1"}, "user"),
    ("file", {"input": {"item": {}}, "userId": ""}, "userId"),
    ("relate", {"input": {"newItem": {}, "corpus": [{}]}}, "input.corpus[0].id"),
    ("retrieve", {"relevantOpuses": []}, "query"),
    ("retrieve", {"query": "When?"}, "relevantOpuses"),
]


def test_what_is_missing_is_named_and_nothing_is_asked(app, model):
    for name, body, place in WRONG:
        refused = app.post(f"/api/ai/{name}", body)
        assert refused.status_code == 400, refused.content
        assert place in [fault["field"] for fault in refused.json()["error"]["fields"]]
    assert not model.asked
    assert not Decision.objects.exists()


def test_a_session_asks_for_its_own_person_only(api, agents, model, owner, viewer):
    model.pick = '{"recommended_item_id":"item-1"}'
    client = api.person(owner)
    asked = ASKED["prioritize"]["input"]
    refused = client.post("/api/ai/prioritize", {"input": asked, "userId": str(viewer.pk)})
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "not_authenticated")
    assert not Decision.objects.exists()
    for user in ({"userId": str(owner.pk)}, {}):
        assert client.post("/api/ai/prioritize", {"input": asked, **user}).status_code == 200
    assert set(Decision.objects.values_list("unit", "user_ref")) == {(str(owner.pk), str(owner.pk))}
    assert api.person(viewer).post("/api/ai/prioritize", {"input": asked}).status_code == 403


def test_the_internal_key_asks_too_and_a_repeat_is_answered_once(agents, model, settings, workspace):
    settings.INTERNAL_API_KEY, settings.INTERNAL_WORKSPACE = KEY, workspace.slug
    model.pick = SAYS["file"]
    headers = {"x-internal-api-key": KEY, "Idempotency-Key": "file-item-1"}
    body = json.dumps(ASKED["file"])
    first, again = (
        Client().post("/api/ai/file", body, content_type="application/json", headers=headers) for _ in range(2)
    )
    assert (first.status_code, again.status_code) == (200, 200), first.content
    assert first.json() == again.json()
    assert Decision.objects.count() == len(model.asked) == 1
