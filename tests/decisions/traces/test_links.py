"""One call is one decision: a span that carries the id of the gateway's answer is linked to its decision; and the unit
of a trace is that of its decisions."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from decisions.erasure.erasing import erase_decisions
from decisions.models import Decision, Episode, Feedback, Step
from decisions.traces.links import link_decision
from decisions.traces.mapping import read_span
from tests.decisions.traces.spans_made import NEW_GENAI, OPENINFERENCE, make_span
from tools.factories import AgentFactory, AgentVersionFactory, CallFactory, DecisionFactory, ModelVersionFactory
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db
ROOT = {"openinference.span.kind": "AGENT", "agent.name": "Concierge", "user.id": "ann", "session.id": "monday"}
MESSAGES = [{"role": "user", "content": "which folder?"}]


@pytest.fixture
def answered(workspace: Any) -> Callable[..., Decision]:
    """`answered()`: a decision of the gateway's, as a chat without a unit is recorded."""
    version = ModelVersionFactory(registered_model__workspace=workspace)
    agent = AgentFactory(workspace=workspace, slug="helper", registered_model=version.registered_model)
    AgentVersionFactory(agent=agent, action_space="text", options=None, action_schema=None)

    def record(**fields: Any) -> Decision:
        given = {"id": uuid7(), "state": {"input": "which folder?", "messages": MESSAGES}} | fields
        given = {"unit": str(given["id"])} | given
        return DecisionFactory(
            agent=agent, policy_name=None, model_version=version, options=None, action="travel", **given
        )

    return record


def call(answer_id: str, number: int = 2, **more: Any) -> Any:
    attributes = {**NEW_GENAI["attributes"], "gen_ai.response.id": answer_id}
    return make_span(number, start=0.1, parent=1, attributes=attributes, **more)


def root() -> Any:
    return make_span(1, seconds=2, attributes=ROOT)


def in_a_body(answer_id: str) -> dict[str, Any]:
    return {**OPENINFERENCE["attributes"], "output.value": json.dumps({"id": answer_id, "choices": []})}


def test_an_answer_s_id_is_read_in_every_form() -> None:
    answer = uuid7()
    for written in (f"chatcmpl-{answer.hex}", f"resp_{answer.hex}", str(answer), answer.hex):
        assert read_span(call(written)).answer == answer
    assert read_span(make_span(attributes=in_a_body(f"chatcmpl-{answer.hex}"))).answer == answer
    said = json.dumps([{"role": "assistant", "content": f'{{"id": "chatcmpl-{answer.hex}"}}'}])
    quoted = {"openinference.span.kind": "LLM", "input.value": "x", "output.value": said}
    assert read_span(make_span(attributes=quoted)).answer is None
    for foreign in ("chatcmpl-AbC", f"chatcmpl-{uuid.uuid4().hex}", f"msg_{answer.hex}"):
        assert read_span(call(foreign)).answer is None
    assert read_span(make_span(attributes={**ROOT, "gen_ai.response.id": str(answer)})).answer is None


def test_a_call_that_the_gateway_answered_is_its_decision(exporter: Any, answered: Any) -> None:
    decision = answered()
    exporter.send(call(f"chatcmpl-{decision.id.hex}"))
    exporter.send(root())
    [linked] = Decision.objects.all()
    episode, step = Episode.objects.get(), Step.objects.get(kind="llm_call")
    assert (linked.id, linked.episode, linked.unit, linked.agent.slug) == (decision.id, episode, "ann", "helper")
    assert (step.decision_id, step.episode, step.arguments) == (decision.id, episode, None)
    assert (episode.query, episode.final_response, episode.agent.slug) == ("which folder?", "travel", "concierge")


@pytest.mark.slow
def test_both_feedbacks_reach_it(exporter: Any, answered: Any, api: Any) -> None:
    decision = answered()
    event = ("gen_ai.evaluation.result", {"gen_ai.evaluation.name": "good", "gen_ai.evaluation.score.value": 0.5})
    exporter.send(call(f"chatcmpl-{decision.id.hex}", events=(event,)))
    api("feedback:write").post(
        "feedback", {"decision_id": str(decision.id), "metric": "verdict", "value": "confirmed", "source": "human"}
    )
    assert set(Feedback.objects.values_list("metric", "decision")) == {
        ("good", decision.id),
        ("verdict", decision.id),
    }


def test_a_call_that_is_still_open_waits_for_its_decision(
    exporter: Any, answered: Any, by: Any, workspace: Any
) -> None:
    """Its client went away and told of it before the gateway recorded what there was."""
    opened = CallFactory(id=uuid7(), assigned=ModelVersionFactory(registered_model__workspace=workspace))
    exporter.send(call(f"chatcmpl-{opened.id.hex}"), root())
    step = Step.objects.get(kind="llm_call")
    assert (step.decision_id, Decision.objects.exists()) == (opened.id, False)
    assert step.arguments["messages"][-1] == {"role": "user", "content": "which folder?"}
    decision = answered(id=opened.id)
    link_decision(by, decision.id)
    linked = Decision.objects.get()
    assert (linked.episode, linked.unit) == (Episode.objects.get(), "ann")


@pytest.mark.slow
def test_what_the_client_named_stays(exporter: Any, answered: Any) -> None:
    named = answered(unit="bob")
    exporter.send(call(f"chatcmpl-{named.id.hex}"), root())
    assert Decision.objects.get().unit == "bob"


@pytest.mark.slow
def test_an_id_that_is_none_of_the_workspace_s_is_another_model_s(
    exporter: Any, exporter_of: Any, answered: Any, other_workspace: Any
) -> None:
    """Another workspace's decision, and an id of nothing."""
    theirs = answered()
    exporter_of(other_workspace, "decisions:write").send(call(f"chatcmpl-{theirs.id.hex}"))
    exporter.send(call(f"chatcmpl-{uuid7().hex}", 3))
    theirs.refresh_from_db()
    assert theirs.episode is None
    assert Decision.objects.exclude(id=theirs.id).count() == 2
    assert not Step.objects.filter(decision_id=theirs.id).exists()


@pytest.mark.slow
def test_a_call_whose_decision_was_erased_is_refused(exporter: Any, answered: Any, workspace: Any) -> None:
    decision = answered()
    erase_decisions(workspace=workspace, ids=[decision.id], secret=b"s" * 32)
    answer = exporter.send(call(f"chatcmpl-{decision.id.hex}"))
    assert b"its content was erased" in answer.content
    assert not Step.objects.exists()


def test_the_root_s_unit_is_that_of_its_trace_s_decisions(exporter: Any) -> None:
    """Wherever it comes; a decision's own unit stays."""
    own = {**NEW_GENAI["attributes"], "user.id": "bob"}
    exporter.send(make_span(2, start=0.1, parent=1, **NEW_GENAI), make_span(3, start=0.2, parent=1, attributes=own))
    exporter.send(root())
    exporter.send(make_span(4, start=0.3, parent=1, **NEW_GENAI))
    assert list(Decision.objects.order_by("id").values_list("unit", flat=True)) == ["ann", "bob", "ann"]
