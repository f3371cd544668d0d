"""The real SDK, its OTLP exporter and a real instrumentation of the OpenAI client, against a live server.

The traced calls go to our own model server, so nothing leaves the machine. A model is trained for it: that one is slow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.trace import Status, StatusCode, format_trace_id

from decisions.models import Decision, Episode, Feedback, Step
from models_registry.versions.services import store_artifact
from tools.model_server import running_model_server

if TYPE_CHECKING:
    from openai import OpenAI

pytestmark = pytest.mark.django_db(transaction=True)
TOKEN = "for-this-test"
ENDED = {"gen_ai.evaluation.name": "solved", "gen_ai.evaluation.score.value": 1.0}


@pytest.fixture
def provider(live_server: Any, api: Any) -> Iterator[TracerProvider]:
    """As an app sets it up, with gzip; one span a request, so that children arrive before their parents."""
    made = TracerProvider(resource=Resource.create({"service.name": "notes app"}))
    exporter = OTLPSpanExporter(
        endpoint=f"{live_server.url}/v1/traces",
        headers={"Authorization": f"Bearer {api('decisions:write').token}"},
        compression=Compression.Gzip,
    )
    made.add_span_processor(SimpleSpanProcessor(exporter))
    yield made
    made.shutdown()


@pytest.fixture
def model(tiny_run: Path, store: Path, by: Any, settings: Any) -> Iterator[tuple[OpenAI, str]]:
    """An OpenAI client of our own model server, and the name of the tiny model there."""
    from openai import OpenAI  # a second of imports

    folder = tiny_run / "attempts" / "1" / "model"
    artifact = store_artifact(workspace=by.workspace, folder=folder, kind="model", meta={"made": "for traces"})
    with running_model_server(store, TOKEN) as address, OpenAI(base_url=f"{address}/v1", api_key=TOKEN) as client:
        yield client, artifact.digest


@pytest.mark.slow
def test_traced_calls_of_the_openai_client_become_an_episode(
    provider: TracerProvider, model: tuple[OpenAI, str], live_server: Any
) -> None:
    from openinference.instrumentation.openai import OpenAIInstrumentor

    client, name = model
    instrumentor = OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    tracer = provider.get_tracer("app")
    try:
        with tracer.start_as_current_span(
            "file the note",
            attributes={
                "openinference.span.kind": "AGENT",
                "input.value": "which folder?",
                "session.id": "monday",
                "user.id": "ann",
            },
        ) as root:
            with tracer.start_as_current_span(
                "search", attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search_notes"}
            ) as tool:
                tool.record_exception(TimeoutError("too slow"))
                tool.set_status(Status(StatusCode.ERROR))
            messages: Any = [{"role": "system", "content": "be short"}, {"role": "user", "content": "flight hotel"}]
            said = client.chat.completions.create(model=name, messages=messages, max_tokens=4, temperature=0)
            root.set_attribute("output.value", "travel")
            root.add_event("gen_ai.evaluation.result", ENDED)
    finally:
        instrumentor.uninstrument()
    episode = Episode.objects.get()
    assert episode.trace == format_trace_id(root.get_span_context().trace_id)
    assert (episode.query, episode.final_response) == ("which folder?", "travel")
    assert (episode.session, episode.unit, episode.agent.slug) == ("monday", "ann", "notes-app")
    steps = {step.kind: step for step in episode.steps.all()}
    assert set(steps) == {"span", "tool_call", "llm_call"} and episode.steps.count() == 3
    assert (steps["tool_call"].error, steps["tool_call"].success) == ("TimeoutError: too slow", False)
    assert {steps[kind].parent for kind in ("tool_call", "llm_call")} == {steps["span"].external_id}
    text = said.choices[0].message.content
    call, decision = steps["llm_call"], Decision.objects.get()
    assert said.usage is not None
    assert (call.tokens_in, call.tokens_out) == (said.usage.prompt_tokens, said.usage.completion_tokens)
    assert (decision.action, decision.state["messages"], decision.state["input"]) == (text, messages, "flight hotel")
    assert (call.decision_id, decision.episode, decision.latency_ms) == (decision.id, episode, call.duration_ms)
    feedback = Feedback.objects.get()
    assert (feedback.episode, feedback.metric, feedback.value) == (episode, "solved", 1.0)


def test_a_batch_of_the_new_names_arrives_whole(live_server: Any, api: Any) -> None:
    """What an app sends whose instrumentation writes the names after 1.36: set by hand, sent by the SDK's batches."""
    headers = {"Authorization": f"Bearer {api('decisions:write').token}"}
    exporter = OTLPSpanExporter(endpoint=f"{live_server.url}/v1/traces", headers=headers, compression=Compression.Gzip)
    provider = TracerProvider(resource=Resource.create({"service.name": "writer"}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("app")
    for number in range(40):
        question, answer = ([{"type": "text", "content": text}] for text in (f"q{number}", "a"))
        with (
            tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}),
            tracer.start_as_current_span("chat") as span,
        ):
            span.set_attributes(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": "openai",
                    "gen_ai.request.model": "gpt-x",
                    "gen_ai.input.messages": json.dumps([{"role": "user", "parts": question}]),
                    "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": answer}]),
                    "gen_ai.usage.input_tokens": 5,
                }
            )
            span.add_event("gen_ai.evaluation.result", {**ENDED, "gen_ai.evaluation.name": "good"})
    assert provider.force_flush()
    provider.shutdown()
    assert (Episode.objects.count(), Step.objects.count(), Decision.objects.count()) == (40, 80, 40)
    assert set(Episode.objects.values_list("query", flat=True)) == {f"q{number}" for number in range(40)}
    assert set(Episode.objects.values_list("final_response", flat=True)) == {"a"}
    assert Feedback.objects.filter(decision__isnull=False, metric="good", source="llm").count() == 40


def test_a_wrong_key_is_an_error_for_the_exporter(live_server: Any, caplog: pytest.LogCaptureFixture) -> None:
    exporter = OTLPSpanExporter(endpoint=f"{live_server.url}/v1/traces", headers={"Authorization": "Bearer no.key"})
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provider.get_tracer("app").start_span("x", attributes={"gen_ai.operation.name": "chat"}).end()
    provider.shutdown()
    assert "401" in caplog.text
    assert not Step.objects.exists()
