"""TensorZero's tables, by the columns that its documentation names."""

import datetime as dt
import json
import uuid

import pytest

from decisions.erasure.erasing import Person, erase_decisions, find_decisions
from decisions.models import Agent, Decision, Episode, Feedback, Step
from tests.decisions.importers.conftest import counts
from tools.factories import uuid7_at

pytestmark = pytest.mark.django_db
FLAGS = ("--format", "tensorzero", "--create-agents")


def at(second):
    return str(uuid7_at(dt.datetime(2025, 6, 1, 12, 0, second, tzinfo=dt.UTC)))


EPISODE, CHAT, JSON, CALLS = at(0), at(1), at(2), at(3)


def chat(**fields):
    return {
        "id": CHAT,
        "function_name": "draft_email",
        "variant_name": "short",
        "episode_id": EPISODE,
        "input": json.dumps({"system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]}),
        "output": json.dumps([{"type": "text", "text": "Hello."}]),
        "tool_params": "",
        "inference_params": json.dumps({"chat_completion": {"temperature": 0.5}}),
        "processing_time_ms": 350,
        "timestamp": "2025-06-01 12:00:01",
        "tags": {"user_id": "ann"},
    } | fields


def extraction():
    return {
        "id": JSON,
        "function_name": "extract",
        "variant_name": "base",
        "episode_id": EPISODE,
        "input": json.dumps({"messages": []}),
        "output": json.dumps({"raw": '{"name": "Bo"}', "parsed": {"name": "Bo"}}),
        "output_schema": json.dumps({"type": "object"}),
        "inference_params": "{}",
        "processing_time_ms": 10,
        "tags": {},
    }


def model_call():
    return {
        "id": at(4),
        "inference_id": CHAT,
        "raw_request": "{}",
        "raw_response": "{}",
        "model_name": "gpt-4o-mini",
        "model_provider_name": "openai",
        "input_tokens": 20,
        "output_tokens": 4,
        "response_time_ms": 300,
        "system": "Be brief.",
        "input_messages": "[]",
        "output": json.dumps([{"type": "text", "text": "Hello."}]),
        "finish_reason": "stop",
    }


def metric(target, name, value, second, **fields):
    return {"id": at(second), "target_id": target, "metric_name": name, "value": value, "tags": {}} | fields


@pytest.fixture
def export(lines, tmp_path):
    """A folder with a file a table; the names sort feedback before what it is about."""
    calls = [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": "x"}, "raw_arguments": '{"q": "x"}'},
    ]
    lines(metric(CHAT, "accepted", True, 10), name="export/BooleanMetricFeedback.jsonl")
    lines(metric(EPISODE, "score", 0.5, 11), name="export/FloatMetricFeedback.jsonl")
    comment = {"id": at(12), "target_id": CHAT, "target_type": "inference", "value": "too short", "tags": {}}
    lines(comment, name="export/CommentFeedback.jsonl")
    shown = {"id": at(13), "inference_id": CHAT, "value": json.dumps([{"type": "text", "text": "Hi!"}]), "tags": {}}
    lines(shown, name="export/DemonstrationFeedback.jsonl")
    chats = [chat(), chat(id=CALLS, function_name="research", output=json.dumps(calls))]
    lines(*chats, chat(id=at(5), function_name="research"), name="export/ChatInference.jsonl")
    lines(extraction(), name="export/JsonInference.jsonl")
    lines(model_call(), name="export/ModelInference.jsonl")
    return tmp_path / "export"


def test_inferences_are_decisions_and_everything_about_them_is_found(importing, export):
    done = importing(export, *FLAGS)
    assert done.code == 0, done.errors
    assert counts() == {"Decision": 4, "Episode": 3, "Step": 1, "Feedback": 6}
    assert Feedback.objects.filter(metric="score", episode__in=Episode.objects.all()).count() == 3  # one a function
    decision = Decision.objects.get(external_id=CHAT)
    assert decision.state["system"] == "Be brief."
    assert (decision.action, decision.unit, decision.temperature) == ("Hello.", "ann", 0.5)
    assert (decision.policy_name, decision.tokens_in, decision.tokens_out) == ("short@gpt-4o-mini", 20, 4)
    assert (decision.episode.external_id, decision.latency_ms) == (EPISODE, 350)
    assert decision.observed_at.isoformat() == "2025-06-01T12:00:01+00:00"
    step = Step.objects.get()
    assert (step.decision_id, step.kind, step.duration_ms) == (decision.id, "llm_call", 300)
    fed = {one.metric: (one.value, one.source) for one in Feedback.objects.filter(decision_id=decision.id)}
    assert fed["accepted"] == (True, "system")
    assert fed["comment"] == ("too short", "human")
    assert json.loads(fed["demonstration"][0])[0]["text"] == "Hi!"


def test_an_agent_s_space_follows_from_all_its_outputs(importing, export):
    importing(export, *FLAGS)
    spaces = {agent.slug: agent.versions.get().action_space for agent in Agent.objects.all()}
    assert spaces == {"draft_email": "text", "extract": "structured", "research": "tool_calls"}
    actions = [decision.action for decision in Decision.objects.filter(agent__slug="research")]
    assert [one[0]["name"] for one in actions if isinstance(one, list)] == ["search"]
    assert [one for one in actions if isinstance(one, str)] == ["Hello."]
    assert Decision.objects.get(agent__slug="extract").action == {"name": "Bo"}


def test_feedback_on_an_episode_of_one_agent_finds_it(importing, lines):
    given = lines(metric(EPISODE, "score", 0.5, 11), chat())
    assert importing(given, *FLAGS).code == 0
    assert Feedback.objects.get().episode == Episode.objects.get()
    later = importing(lines(metric(CHAT, "late", 1.5, 20)), *FLAGS)
    assert later.code == 0
    assert Feedback.objects.get(metric="late").decision_id == Decision.objects.get().id


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (chat(id="x"), "id: 'x' is not a UUID"),
        (chat(id=str(uuid.UUID(int=5))), "id: is not a uuid7"),
        (chat(output="nothing"), "output: is neither content blocks nor an object"),
        (metric(CHAT, "score", None, 9), "value: is neither a number"),
        (
            {"model_name": "x", "inference_id": at(30)},
            "inference_id: names an inference that is in none of these files",
        ),
        ({"dataset_name": "x"}, "the row: belongs to none of the"),
    ],
)
def test_what_is_not_usable_is_named(importing, lines, bad, reason):
    path = lines(bad, chat(id=at(40)))
    done = importing(path, *FLAGS)
    assert done.code == 1
    assert [one.startswith(f"{path}:1: {reason}") for one in done.report["refusals"]] == [True], done.report
    assert Decision.objects.count() == 1
    assert not Feedback.objects.exists()


def test_feedback_on_an_erased_episode_does_not_come_back_as_a_decision_s(importing, lines, workspace):
    """Where the export does not say what a metric is about, an unknown name would be taken for a decision's."""
    given = lines(metric(EPISODE, "score", 0.5, 11), chat())
    assert importing(given, *FLAGS).code == 0
    ids = find_decisions(workspace=workspace, person=Person("unit", "ann"), after=None, size=10)
    assert len(ids) == 1
    erase_decisions(workspace=workspace, ids=ids, secret=b"s" * 32)
    before = list(Feedback.objects.values())
    done = importing(given, *FLAGS)
    assert (done.code, done.report["refused"], done.report["feedback"]) == (2, 2, 0)
    assert list(Feedback.objects.values()) == before
