"""An id that stands in another workspace: the answer says nothing of what is there, and nothing changes."""

from __future__ import annotations

from typing import Any

import pytest

from decisions.models import Decision, StatusChange, Step
from tests.decisions.conftest import body
from tools.factories import AgentFactory, AgentVersionFactory, AliasFactory, ModelVersionFactory
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent() -> dict[str, Any]:
    row_id = str(uuid7())
    return {
        "decisions": body(id=row_id),
        "steps": {"id": row_id, "kind": "span", "agent": "filer", "episode": "e"},
        "status-changes": {"id": row_id, "item_ref": "i", "status": "DONE"},
    }


@pytest.fixture
def theirs(api: Any, agent: Any, other_workspace: Any) -> Any:
    """Another workspace with an agent of the same name, that a model serves."""
    other = AgentFactory(workspace=other_workspace, slug="filer")
    AgentVersionFactory(agent=other, options=["travel", "health"])
    AliasFactory(version=ModelVersionFactory(registered_model=other.registered_model))
    return api.of(other_workspace)


@pytest.mark.parametrize("path", ["decisions", "steps", "status-changes"])
@pytest.mark.parametrize("size", [1, 8])  # by INSERT, by COPY
@pytest.mark.quick_cases(4)
def test_it_is_an_id_that_cannot_be_used(api: Any, theirs: Any, sent: Any, path: str, size: int) -> None:
    one = sent[path]
    assert api().post(path, one).status_code == 201
    model = {"decisions": Decision, "steps": Step, "status-changes": StatusChange}[path]
    before = set(model.objects.values_list("id", "workspace_id"))
    others = [one | {"id": str(uuid7())} for _ in range(size - 1)]
    for key in ({}, {"Idempotency-Key": "k"}):
        answer = theirs.post(path, [one, *others] if others else one, **key)
        error = answer.json()["errors"][0] if others else answer.json()["error"]
        assert (answer.status_code, error["code"]) == (207 if others else 400, "invalid_input"), answer.content
        assert error["fields"] == [{"field": "id", "reason": "cannot be used", "expected": "a new ID"}]
        assert one["id"] not in answer.content.decode() and "before" not in answer.content.decode()
    assert set(model.objects.values_list("id", "workspace_id")) >= before
    assert model.objects.count() == len(before) + len(others)


def test_an_agent_is_not_asked_under_it(api: Any, theirs: Any, sent: Any) -> None:
    assert api().post("decisions", sent["decisions"]).status_code == 201
    answer = theirs.post("agents/filer/decide", {"state": {"text": "x"}, "id": sent["decisions"]["id"]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_input")
    assert answer.json()["error"]["fields"][0]["reason"] == "cannot be used"
    assert Decision.objects.count() == 1
