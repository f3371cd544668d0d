"""The corrected action of a decision, by the verdict that counts."""

import pytest

from decisions.agents.canonical import canonical
from decisions.agents.chat_actions import canonical_action
from decisions.labelling.corrections import corrected_action
from decisions.labelling.labels import label_decision, withdraw_label
from decisions.models import Decision
from decisions.models.verdicts import find_verdict
from tools.factories import DecisionFactory
from workspaces.access.actors import person


@pytest.mark.django_db
def test_the_correction_is_that_of_the_verdict_that_counts(agent, labeller, workspace):
    by = person(labeller, workspace, "labeller")
    decision = DecisionFactory(agent=agent, action="travel")

    def now():
        fresh = Decision.objects.get(id=decision.id)
        return corrected_action(fresh, find_verdict(fresh))

    assert now() is None
    label_decision(by=by, decision=decision, verdict="corrected", corrected_action="health")
    assert now() == "health"
    label_decision(by=by, decision=decision, verdict="corrected")
    assert now() is None
    withdraw_label(by=by, decision=decision)
    assert now() == "health"


def test_equal_json_is_one_text():
    assert canonical({"b": [1.0, "ä"], "a": None}) == canonical({"a": None, "b": [1, "ä"]}) == '{"a":null,"b":[1,"ä"]}'
    assert len({canonical(one) for one in ([1, 2], [2, 1], [True, 2], ["1", 2], [1.5, 2])}) == 5


def test_calls_are_the_same_whatever_ids_their_server_gave_them():
    call = {"name": "find", "arguments": {"id": 3}}
    assert canonical_action([call | {"id": "call_1"}]) == canonical_action([call]) == canonical([call])
    assert canonical_action([call]) != canonical_action([call | {"arguments": {"id": 4}}])
    for other in ("words", [], {"id": 3}, [{"id": 3}], ["a"], None):
        assert canonical_action(other) == canonical(other)
