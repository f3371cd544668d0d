"""What each client told of the agents in clients/, recorded once by its own run: one episode with everything in it.

test_python_clients.py and test_node_clients.py run the clients themselves.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from decisions.models import Step
from decisions.traces.dialects import translate_span
from decisions.traces.mapping import read_span
from decisions.traces.otlp import read_request
from tests.decisions.traces.conftest import JSON
from tests.decisions.traces.spans_made import nanoseconds
from tests.decisions.traces.weather_episode import ANSWER, CALL, MESSAGES, check_episode

pytestmark = pytest.mark.django_db
RECORDED = Path(__file__).parent / "recorded"
TOLD: dict[str, dict[str, Any]] = {
    "ai_sdk_5": {"agent": "weather-agent"},
    "ai_sdk_6": {"agent": "weather-agent"},
    "ai_sdk_7": {"agent": "weather-agent"},
    "langfuse": {"agent": "weather-app"},
    "mlflow": {"agent": "weather-app"},
    "openinference": {"agent": "weather-app"},
    "pydantic_ai": {"agent": "weather-agent", "unit": "", "session": None},
    "traceloop": {"agent": "weather-app"},
}


def spans_of(client: str) -> dict[str, Any]:
    """Its request, with the times of today."""
    body: dict[str, Any] = json.loads((RECORDED / f"{client}.json").read_text())
    spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
    first = min(int(span["startTimeUnixNano"]) for span in spans)
    for span in spans:
        for name in ("startTimeUnixNano", "endTimeUnixNano"):
            span[name] = str(int(span[name]) - first + nanoseconds(0))
    return body


QUICK = ("ai_sdk_6", "langfuse")


@pytest.mark.parametrize("client", TOLD)
def test_each_client_s_spans_hold_the_calls_and_their_answers(client: str) -> None:
    spans = read_request(json.dumps(spans_of(client)).encode(), JSON).spans
    told = sorted((read_span(translate_span(span)) for span in spans), key=lambda one: one.step.started_at)
    first, second = (one for one in told if one.step.kind == "llm_call")
    assert [one.decisions[0].actions.get("tool_calls") for one in (first, second)] == [[CALL], None]
    assert second.decisions[0].actions["text"] == ANSWER
    assert second.step.arguments["messages"] == MESSAGES
    [tool] = (one.step for one in told if one.step.kind == "tool_call")
    assert (tool.name, tool.arguments, tool.result) == ("weather", {"city": "Oslo"}, "18 degrees")


@pytest.mark.parametrize("client", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in TOLD])
def test_a_run_of_two_steps_with_a_tool_is_an_episode(exporter: Any, client: str) -> None:
    answer = exporter.post(json.dumps(spans_of(client)).encode(), JSON)
    assert (answer.status_code, answer.content) == (200, b"{}")
    check_episode(**TOLD[client])


@pytest.mark.slow
@pytest.mark.parametrize("client", ["ai_sdk_7", "mlflow", "langfuse"])
def test_span_by_span_tells_the_same(exporter: Any, client: str) -> None:
    """As exporters without batches send it: what ends first comes first."""
    body = spans_of(client)
    scope = body["resourceSpans"][0]["scopeSpans"][0]
    spans, sent = scope["spans"], 0
    for span in sorted(spans, key=lambda span: int(span["endTimeUnixNano"])):
        scope["spans"] = [span]
        sent += exporter.post(json.dumps(body).encode(), JSON).status_code == 200
    assert sent == len(spans) == Step.objects.count()
    check_episode(**TOLD[client])
