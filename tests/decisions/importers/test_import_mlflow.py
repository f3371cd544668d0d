"""MLflow traces: of the shape that 3.17 writes, and those that a real MLflow has written.

The real one takes half a minute to install and to write, and writes the same until VERSION changes: what it wrote lies
beside this file. With RECKONER_MLFLOW=1 the test has it written anew.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from decisions.models import Agent, Decision, Episode, Feedback, Step
from tests.decisions.importers.conftest import counts

pytestmark = pytest.mark.django_db
FLAGS = ("--format", "mlflow", "--create-agents")
VERSION = "3.17.2"
WRITTEN = Path(__file__).with_name(f"mlflow-{VERSION}.jsonl")


def span(name, number, parent=None, kind="UNKNOWN", inputs=None, outputs=None, **fields):
    start = 1_795_183_134_321_000_000 + number * 1_000_000
    attributes = {"mlflow.spanType": kind, "mlflow.spanInputs": inputs, "mlflow.spanOutputs": outputs}
    attributes |= fields.pop("attributes", {})
    return {
        "trace_id": "Gp8My9B/PtcfxH1kjgI5lw==",
        "span_id": f"span{number}",
        "parent_span_id": parent,
        "name": name,
        "start_time_unix_nano": start,
        "end_time_unix_nano": start + 500_000,
        "events": [],
        "status": {"code": "STATUS_CODE_OK", "message": ""},
        "attributes": {key: json.dumps(value) for key, value in attributes.items() if value is not None},
        "links": [],
    } | fields


def assessment(name, value, number, kind="HUMAN", **fields):
    return {
        "assessment_id": f"a-{number}",
        "assessment_name": name,
        "source": {"source_type": kind, "source_id": "bo"},
        "create_time": "2026-11-19T14:00:00Z",
        "feedback": {"value": value},
        "valid": True,
    } | fields


def trace(**info):
    return {
        "info": {
            "trace_id": "tr-1a9f",
            "request_time": "2026-11-19T13:58:54.321Z",
            "state": "OK",
            "trace_metadata": {
                "mlflow.trace.session": "s1",
                "mlflow.trace.user": "ann",
                "mlflow.trace.tokenUsage": '{"input_tokens": 12, "output_tokens": 5, "total_tokens": 17}',
            },
            "assessments": [
                assessment("helpful", True, 1),
                assessment("grade", 0.5, 2, "LLM_JUDGE"),
                assessment("grade", 0.1, 3, "LLM_JUDGE", valid=False),
                assessment("answer", None, 4, feedback=None, expectation={"value": "It is sent"}),
            ],
            "tags": {"mlflow.traceName": "Support bot"},
            "execution_duration_ms": 4,
        }
        | info,
        "data": {
            "spans": [
                span("bot", 1, None, "AGENT", {"question": "Where is it?"}, "It is sent"),
                span("think", 2, "span1", "LLM", {"q": 1}, "call look_up", attributes={"mlflow.llm.model": "gpt-x"}),
                span("look_up", 3, "span1", "TOOL", {"order": "A-1"}, {"status": "sent"}),
            ]
        },
    }


def test_a_trace_is_a_decision_its_spans_are_steps(importing, lines):
    done = importing(lines(trace()), *FLAGS)
    assert done.code == 0, done.errors
    decision = Decision.objects.get()
    assert (decision.state, decision.action) == ({"question": "Where is it?"}, "It is sent")
    assert (decision.policy_name, decision.unit, decision.tokens_in) == ("gpt-x", "ann", 12)
    assert (decision.external_id, decision.latency_ms, decision.agent.slug) == ("tr-1a9f", 4.0, "support-bot")
    assert Episode.objects.get().session == "s1"
    model, tool = Step.objects.order_by("number")
    assert (model.kind, model.model, model.parent) == ("llm_call", "gpt-x", "span1")
    assert (tool.kind, tool.arguments, tool.result) == ("tool_call", {"order": "A-1"}, {"status": "sent"})
    assert tool.duration_ms == 0.5
    fed = {one.metric: (one.value, one.source) for one in Feedback.objects.all()}
    assert fed == {"helpful": (True, "human"), "grade": (0.5, "llm"), "expectation.answer": ("It is sent", "human")}


def test_text_and_objects_of_one_agent_become_text(importing, tmp_path):
    other = trace(trace_id="tr-2")
    other["data"]["spans"][0] = span("bot", 1, None, "AGENT", "plain words", {"b": 1, "a": [2]})
    path = tmp_path / "traces.json"
    path.write_text(json.dumps([trace(), other]))
    assert importing(path, *FLAGS).code == 0
    assert Agent.objects.get().versions.get().action_space == "text"
    decision = Decision.objects.get(external_id="tr-2")
    assert (decision.state, decision.action) == ({"input": "plain words"}, '{"a":[2],"b":1}')


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda bad: bad.pop("data"), "info: is missing"),
        (lambda bad: bad["info"].pop("request_time"), "info.trace_id: is missing: traces of MLflow 2"),
        (lambda bad: bad["data"].update(spans=[]), "data.spans: has 0 spans without a parent"),
        (lambda bad: bad["info"].update(request_time="now"), "info.request_time: 'now' is not"),
    ],
)
def test_a_trace_that_is_not_usable_is_named(importing, lines, change, reason):
    bad = trace()
    change(bad)
    path = lines(bad, trace())
    done = importing(path, *FLAGS)
    assert (done.code, Decision.objects.count()) == (1, 1)
    assert done.report["refusals"][0].startswith(f"{path}:1: {reason}")


def test_a_judge_that_failed_is_no_score(importing, lines):
    failed = assessment("grade", None, 9, feedback={"value": None, "error": {"error_code": "TIMEOUT"}})
    done = importing(lines(trace(assessments=[failed])), *FLAGS)
    assert done.code == 1
    assert "assessments[0].feedback.error: the judge failed" in done.errors
    assert counts() == {"Decision": 1, "Episode": 1, "Step": 2, "Feedback": 0}


RECORD = """
import os, sys
os.environ.update(MLFLOW_ALLOW_FILE_STORE="true", MLFLOW_ENABLE_ASYNC_TRACE_LOGGING="false")
import mlflow
from mlflow.entities import AssessmentSource, SpanType

mlflow.set_tracking_uri(f"file://{sys.argv[1]}/runs")
experiment = mlflow.set_experiment("support").experiment_id

@mlflow.trace(span_type=SpanType.TOOL)
def look_up(order):
    return {"status": "sent", "order": order}

@mlflow.trace(name="support bot", span_type=SpanType.AGENT)
def bot(question, user):
    mlflow.update_current_trace(metadata={"mlflow.trace.session": "s1", "mlflow.trace.user": user})
    if user == "eve":
        raise RuntimeError("no service")
    return f"It is {look_up(question)['status']}"

for number in range(2):
    bot(f"A-{number}", "ann")
try:
    bot("B-1", "eve")
except RuntimeError:
    pass
for trace in mlflow.search_traces(locations=[experiment], return_type="list"):
    mlflow.log_feedback(
        trace_id=trace.info.trace_id, name="helpful", value=trace.info.state == "OK",
        source=AssessmentSource(source_type="HUMAN", source_id="bo"),
    )
with open(f"{sys.argv[1]}/traces.jsonl", "w") as file:
    for trace in mlflow.search_traces(locations=[experiment], return_type="list"):
        file.write(trace.to_json() + "\\n")
"""


@pytest.fixture(scope="module")
def written_by_mlflow(tmp_path_factory):
    """A file of traces."""
    if not os.environ.get("RECKONER_MLFLOW"):
        return WRITTEN
    folder = tmp_path_factory.mktemp("mlflow")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "PYTHON"))}
    done = subprocess.run(
        [str(install_mlflow()), "-c", RECORD, str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment | {"HOME": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return folder / "traces.jsonl"


def install_mlflow():
    """A Python with MLflow, in an environment of its own: it would bring 22 packages into ours. Kept between runs."""
    folder = Path(__file__).resolve().parents[3] / "var" / "test" / f"mlflow-{VERSION}"
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, capture_output=True)
        done = subprocess.run(
            [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", f"mlflow-skinny=={VERSION}"],
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            pytest.skip(f"mlflow-skinny {VERSION} cannot be installed here: {done.stderr.strip()[-200:]}")
        ready.touch()
    return python


def test_what_a_real_mlflow_writes_comes_in(importing, written_by_mlflow):
    first = importing(written_by_mlflow, *FLAGS)
    assert (first.code, first.report["agents"]) == (0, ["support-bot"]), first.errors
    assert counts() == {"Decision": 3, "Episode": 3, "Step": 2, "Feedback": 4}
    good = Decision.objects.filter(unit="ann")
    assert {decision.action for decision in good} == {"It is sent"}
    assert {decision.state["question"] for decision in good} == {f"A-{number}" for number in range(2)}
    assert {(step.kind, step.name, step.result["status"]) for step in Step.objects.all()} == {
        ("tool_call", "look_up", "sent")
    }
    failed = Decision.objects.get(unit="eve")
    fed = dict(Feedback.objects.filter(decision_id=failed.id).values_list("metric", "value"))
    assert (failed.action, fed["helpful"]) == ("", False)
    assert "no service" in fed["error"]
    before = counts()
    assert importing(written_by_mlflow, *FLAGS).report["decisions"] == 0
    assert counts() == before
