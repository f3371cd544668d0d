"""References to items of earlier answers that are no such items, or would make much of little."""

import pytest

from decisions.chats.item_references import MOST_SHOWN, replace_references
from tools.factories import AgentFactory, AgentVersionFactory, DecisionFactory
from workspaces.errors import InvalidInput, TooLarge

pytestmark = pytest.mark.django_db


def refer(*ids):
    return {"input": [{"type": "item_reference", "id": one} for one in ids]}


@pytest.mark.parametrize("action", [["a", "b"], [{"id": 3}], {"name": "a"}], ids=["ranking", "no call", "structured"])
def test_an_action_without_calls_has_no_call_to_refer_to(by, workspace, action):
    version = AgentVersionFactory(agent=AgentFactory(workspace=workspace), action_space="ranking")
    decision = DecisionFactory(agent=version.agent, action=action, options=["a", "b"])
    with pytest.raises(InvalidInput, match="not known here"):
        replace_references(by=by, given=refer(f"fc_{decision.id.hex}_0"))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("msg_{}", {"action": "x", "completion": "x" * 10_000}),
        ("fc_{}_0", {"action": [{"name": "say", "arguments": {"text": "x" * 10_000}}]}),
    ],
)
def test_an_answer_that_is_named_often_is_no_more_than_a_chat_may_be(by, workspace, kind, fields):
    decision = DecisionFactory(agent=AgentFactory(workspace=workspace), options=None, **fields)
    name = kind.format(decision.id.hex)
    assert len(replace_references(by=by, given=refer(*[name] * 100))["input"]) == 100
    with pytest.raises(TooLarge):
        replace_references(by=by, given=refer(*[name] * 110))
    with pytest.raises(InvalidInput):
        replace_references(by=by, given=refer(*[name] * 1025))


def test_of_many_that_are_unknown_some_are_told(by):
    with pytest.raises(InvalidInput) as refused:
        replace_references(by=by, given=refer(*["msg_1"] * 1000))
    assert len(refused.value.faults) == MOST_SHOWN
