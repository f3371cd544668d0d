"""An agent that asks a model, calls a tool and asks again, traced by the client that the first argument names, before
a dash. The second is the model server's URL. Where spans go to is said by OTEL_EXPORTER_OTLP_ENDPOINT and its like, as
in an app.

Runs in an environment of its own (test_python_clients.py): nothing of Reckoner can be imported.
"""

import inspect
import json
import os
import sys

client, url = sys.argv[1:]
MODEL_URL = f"{url}/v1"
QUESTION = "How warm is it in Oslo?"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Now.", "parameters": PARAMETERS}}]


def answer_question(openai, weather):
    """The loop that every app has, with whatever has instrumented the client and the tool."""
    asked = openai.OpenAI(base_url=MODEL_URL, api_key="k", max_retries=0)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    while True:
        completion = asked.chat.completions.create(model="small", messages=messages, tools=TOOLS)
        said = completion.choices[0].message
        if not said.tool_calls:
            return said.content
        messages.append(said.model_dump(exclude_none=True))
        for call in said.tool_calls:
            content = weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


def make_provider():
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider


def by_pydantic_ai():
    provider = make_provider()
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    Agent.instrument_all()
    model = OpenAIChatModel("small", provider=OpenAIProvider(base_url=MODEL_URL, api_key="k"))
    agent = Agent(model, name="weather agent", system_prompt="Be brief.")

    @agent.tool_plain
    def weather(city: str) -> str:
        return "18 degrees"

    answer = agent.run_sync(QUESTION).output
    provider.shutdown()
    return answer


def by_openinference():
    provider = make_provider()
    import openai
    from openinference.instrumentation import OITracer, TraceConfig, using_attributes
    from openinference.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider)
    tracer = OITracer(provider.get_tracer("app"), config=TraceConfig())

    @tracer.tool
    def weather(city: str) -> str:
        return "18 degrees"

    @tracer.agent
    def ask(question: str) -> str:
        return answer_question(openai, weather)

    with using_attributes(session_id="monday", user_id="ann"):
        answer = ask(QUESTION)
    provider.shutdown()
    return answer


def by_traceloop():
    import openai
    from traceloop.sdk import Traceloop
    from traceloop.sdk.decorators import tool, workflow

    Traceloop.init(app_name="weather app", api_endpoint=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"], disable_batch=True)

    @tool(name="weather")
    def weather(city):
        return "18 degrees"

    @workflow(name="ask")
    def ask(question):
        Traceloop.set_association_properties({"user_id": "ann", "session_id": "monday"})
        return answer_question(openai, weather)

    return ask(QUESTION)


def by_langfuse():
    """From version 3 on. Where it takes no exporter, it shares the tracer provider, and sends its own spans in vain."""
    from langfuse import Langfuse, observe, propagate_attributes
    from langfuse.openai import openai
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    takes_exporter = "span_exporter" in inspect.signature(Langfuse).parameters
    more = {"span_exporter": OTLPSpanExporter()} if takes_exporter else {"tracer_provider": make_provider()}
    langfuse = Langfuse(public_key="pk", secret_key="sk", host=url, **more)

    @observe(as_type="tool")
    def weather(city):
        return "18 degrees"

    @observe(as_type="agent")
    def ask(question):
        return answer_question(openai, weather)

    with propagate_attributes(user_id="ann", session_id="monday"):
        answer = ask(QUESTION)
    langfuse.flush()
    return answer


def by_mlflow():
    # For traces alone: it would send metrics to the endpoint of all, and both by gRPC.
    os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = os.environ.pop("OTEL_EXPORTER_OTLP_ENDPOINT") + "/v1/traces"
    os.environ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] = "http/protobuf"
    import mlflow
    import openai

    mlflow.openai.autolog()

    @mlflow.trace(span_type="TOOL")
    def weather(city):
        return "18 degrees"

    @mlflow.trace(span_type="AGENT")
    def ask(question):
        mlflow.get_current_active_span().set_attributes({"user.id": "ann", "session.id": "monday"})
        return answer_question(openai, weather)

    answer = ask(QUESTION)
    mlflow.flush_trace_async_logging()
    return answer


sys.stdout.write(globals()[f"by_{client.partition('-')[0]}"]())
