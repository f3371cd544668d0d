"""A program that is traced asks the gateway: one call is one decision, whichever of the two is recorded first."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from decisions.models import Decision, Episode, Feedback, Step
from models_registry.models import Call
from tests.decisions.traces.conftest import Exporter
from tests.decisions.traces.spans_made import NEW_GENAI, make_span

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("gateway")]
MESSAGES: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How do I get to Oslo?"}]
SAYS = "Take the early train to Oslo"


@pytest.fixture
def sender(api: Any) -> Exporter:
    return Exporter(api("decisions:write").token)


def wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError(list(Call.objects.values_list("state", "error")))


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_instrumented_client_s_call_is_one_decision(
    client: Any, helper: Any, sender: Exporter, streamed: bool
) -> None:
    from openinference.instrumentation.openai import OpenAIInstrumentor
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    instrumentor = OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    around = {"openinference.span.kind": "AGENT", "user.id": "ann", "agent.name": "Planner", "input.value": "Plan!"}
    try:
        with provider.get_tracer("app").start_as_current_span("plan", attributes=around) as root:
            answer = client.chat.completions.create(model="helper", messages=MESSAGES, stream=streamed)
            if streamed:
                list(answer)
            root.add_event(
                "gen_ai.evaluation.result",
                {"gen_ai.evaluation.name": "solved", "gen_ai.evaluation.score.value": 1.0},
            )
    finally:
        instrumentor.uninstrument()
    assert sender.post(encode_spans(memory.get_finished_spans()).SerializeToString()).status_code == 200
    decision, episode, step = Decision.objects.get(), Episode.objects.get(), Step.objects.get(kind="llm_call")
    assert (decision.agent.slug, decision.episode, decision.unit) == ("helper", episode, "ann")
    assert (step.decision_id, episode.agent.slug, episode.query) == (decision.id, "planner", "Plan!")
    assert episode.final_response == SAYS
    assert Feedback.objects.get().episode == episode


def test_a_stream_that_its_client_left_finds_the_step_that_came_first(ask: Any, helper: Any, sender: Exporter) -> None:
    server = helper[2]
    server.after = lambda number: server.left.wait(0.05) if number >= 3 else None
    server.pick = "on and on " * 100
    body = {"model": "helper", "messages": MESSAGES, "stream": True}
    with ask.stream("POST", "/chat/completions", json=body) as answer:
        lines = answer.iter_lines()  # whose end would be the stream's
        first = next(line for line in lines if line.startswith("data: {"))
        attributes = {**NEW_GENAI["attributes"], "gen_ai.response.id": json.loads(first.removeprefix("data: "))["id"]}
        sender.send(make_span(attributes={**attributes, "user.id": "ann"}))
        assert not Decision.objects.exists()
    wait_until(lambda: Call.objects.filter(state="left").exists())
    wait_until(lambda: Decision.objects.filter(episode__isnull=False).exists())
    decision = Decision.objects.get()
    assert (decision.episode, decision.unit) == (Episode.objects.get(), "ann")
    assert Step.objects.get().decision_id == decision.id
