"""Langfuse's export, by the fields that its documentation names: traces, both kinds of observations, scores."""

import json

import pytest

from decisions.models import Agent, Decision, Episode, Feedback, Step
from tests.decisions.importers.conftest import counts

pytestmark = pytest.mark.django_db
FLAGS = ("--format", "langfuse", "--create-agents")


def observation(number, parent="", kind="SPAN", **fields):
    return {
        "id": f"o{number}",
        "trace_id": "t1",
        "project_id": "p",
        "type": kind,
        "parent_observation_id": parent,
        "start_time": f"2025-05-29 13:46:{19 + number}.963000",
        "end_time": f"2025-05-29 13:46:{19 + number}.964500",
        "name": f"part {number}",
        "level": "DEFAULT",
        "status_message": "",
        "input": "",
        "output": "",
        "provided_model_name": "",
        "usage_details": {},
        "total_cost": 0,
        "latency": 0.0015,
    } | fields


def enriched(number, *given, **fields):
    context = {"user_id": "ann", "session_id": "s1", "trace_name": "Support bot", "tags": []}
    return observation(number, *given, **context, **fields)


def spans(make):
    return [
        make(1, input='{"question": "Where is it?"}', output="It is sent", latency=2.5),
        make(
            2,
            "o1",
            "GENERATION",
            provided_model_name="gpt-4o",
            usage_details={"input": 12, "output": 5},
            total_cost=0.01,
        ),
        make(3, "o1", "TOOL", input='{"order": "A-1"}', output='{"status": "sent"}'),
        make(4, "o1", "SPAN", level="ERROR", status_message="no net"),
    ]


def trace(**fields):
    return {
        "id": "t1",
        "timestamp": "2025-05-29 13:46:19.963000",
        "name": "Support bot",
        "user_id": "ann",
        "session_id": "s1",
        "input": '{"question": "Where is it?"}',
        "output": "It is sent",
        "tags": [],
    } | fields


def score(number, name, value, kind="NUMERIC", **fields):
    return {
        "id": f"s{number}",
        "timestamp": "2025-05-30 08:00:00.000000",
        "trace_id": "t1",
        "observation_id": None,
        "name": name,
        "value": value,
        "source": "ANNOTATION",
        "comment": None,
        "data_type": kind,
        "string_value": None,
    } | fields


SCORES = [
    score(1, "helpful", 1, "BOOLEAN"),
    score(2, "tone", 0, "CATEGORICAL", string_value="kind", source="EVAL"),
    score(3, "accuracy", 0.25, source="API"),
]


def check():
    decision = Decision.objects.get()
    assert (decision.state, decision.action) == ({"question": "Where is it?"}, "It is sent")
    assert (decision.unit, decision.policy_name, decision.tokens_in, decision.tokens_out) == ("ann", "gpt-4o", 12, 5)
    assert (float(decision.cost), decision.latency_ms, decision.agent.slug) == (0.01, 2500, "support-bot")
    assert decision.observed_at.isoformat() in {"2025-05-29T13:46:19.963000+00:00", "2025-05-29T13:46:20.963000+00:00"}
    assert (Episode.objects.get().session, Episode.objects.get().external_id) == ("s1", "t1")
    steps = {step.external_id: step for step in Step.objects.filter(decision_id=decision.id)}
    assert (steps["o2"].kind, steps["o2"].model, steps["o2"].tokens_out) == ("llm_call", "gpt-4o", 5)
    assert (steps["o3"].kind, steps["o3"].arguments, steps["o3"].result) == (
        "tool_call",
        {"order": "A-1"},
        {"status": "sent"},
    )
    assert (steps["o4"].success, steps["o4"].error, steps["o4"].duration_ms) == (False, "no net", 1.5)
    fed = {one.metric: (one.value, one.source) for one in Feedback.objects.filter(decision_id=decision.id)}
    assert fed == {"helpful": (True, "human"), "tone": ("kind", "llm"), "accuracy": (0.25, "system")}


def test_enriched_observations_and_scores(importing, lines, tmp_path):
    lines(*reversed(spans(enriched)), name="export/observations_v2/a.jsonl")
    lines(*SCORES, name="export/scores/a.jsonl")
    done = importing(tmp_path / "export", *FLAGS)
    assert done.code == 0, done.errors
    assert counts() == {"Decision": 1, "Episode": 1, "Step": 3, "Feedback": 3}
    check()


def test_traces_observations_and_scores_of_the_older_export(importing, tmp_path):
    for name, rows in (("scores", SCORES), ("observations", spans(observation)), ("traces", [trace()])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text(json.dumps(rows))
    done = importing(tmp_path, *FLAGS)
    assert done.code == 0, done.errors
    assert counts() == {"Decision": 1, "Episode": 1, "Step": 4, "Feedback": 3}
    check()


def test_an_export_of_both_kinds_holds_each_observation_once(importing, lines):
    assert importing(lines(trace(), *spans(observation), *spans(enriched), *SCORES), *FLAGS).code == 0
    assert counts() == {"Decision": 1, "Episode": 1, "Step": 4, "Feedback": 3}
    before = counts()
    assert importing(lines(trace(), *spans(observation), *SCORES), *FLAGS).code == 0
    assert counts() == before


def test_agent_may_be_said(importing, lines, agent):
    done = importing(lines(trace()), *FLAGS, "--agent", "support")
    assert (done.code, done.report["agents"]) == (0, ["support"])
    assert Agent.objects.filter(slug="support-bot").count() == 0


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (score(9, "x", 1, trace_id="gone"), "trace_id: the trace is in none of these"),
        (score(9, "x", 1, trace_id=None), "trace_id: is missing"),
        (score(9, "x", "much"), "value: has no value of type NUMERIC"),
        (observation(9, "o1", trace_id="t9"), "parent_observation_id: the trace has no root observation"),
        ({"a": 1}, "the row: belongs to none of the"),
    ],
)
def test_what_is_not_usable_is_named(importing, lines, bad, reason):
    path = lines(bad, trace())
    done = importing(path, *FLAGS)
    assert done.code == 1
    assert [one.startswith(f"{path}:1: {reason}") for one in done.report["refusals"]] == [True], done.report
    assert (Decision.objects.count(), Feedback.objects.count()) == (1, 0)
