"""An agent traced by each client of Python, each as it is published, against the web process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.decisions.traces.client_runs import PROGRAMS, run_traced
from tests.decisions.traces.weather_episode import ANSWER, check_episode
from tests.newer_python import environment_with
from tests.openai_server import OpenAIServer

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
SENDER = "opentelemetry-exporter-otlp-proto-http"
REQUIREMENTS = {
    "pydantic_ai": ("pydantic-ai-slim[openai]==2.68.0", SENDER),
    "openinference": ("openinference-instrumentation-openai==0.1.66", "openai==3.57.0", SENDER),
    "traceloop": ("traceloop-sdk==0.62.4", "openai==3.57.0", "httpx==0.28.1"),
    "langfuse-3": ("langfuse==3.15.0", "openai==3.57.0"),
    "langfuse-4": ("langfuse==4.18.0", "openai==3.57.0"),
    "langfuse-5": ("langfuse==5.0.4", "openai==3.57.0"),
    "mlflow": ("mlflow-tracing==3.17.2", "openai==3.57.0", SENDER),
}
TOLD: dict[str, dict[str, Any]] = {"pydantic_ai": {"agent": "weather-agent", "unit": "", "session": None}}
USAGE = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
TOOL_CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}


def completion(number: int, reason: str, message: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    choices = [{"index": 0, "finish_reason": reason, "message": {"role": "assistant", **message}}]
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": "small"}
    return 200, {**head, "choices": choices, "usage": USAGE}


@pytest.mark.parametrize("client", REQUIREMENTS)
def test_a_traced_agent_becomes_an_episode(
    client: str, web: str, api: Any, serve: Callable[[], OpenAIServer], tmp_path: Path
) -> None:
    python = environment_with(f"traced-{client}", *REQUIREMENTS[client], sources=(Path(__file__),))
    server = serve()
    server.answers += [
        completion(1, "tool_calls", {"content": None, "tool_calls": [TOOL_CALL]}),
        completion(2, "stop", {"content": ANSWER}),
    ]
    command: list[str | Path] = [python, PROGRAMS / "python_agents.py", client, server.url.removesuffix("/v1")]
    said = run_traced(command, url=web, token=api("decisions:write").token, folder=tmp_path)
    assert said.strip().endswith(ANSWER)
    check_episode(**TOLD.get(client, {"agent": "weather-app"}))
