"""The agent `tools` acts in an environment by calls, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.openai_server import OpenAIServer
from training.engine.environments.outside import Endpoint
from training.engine.environments.protocol import EnvironmentFault, draw_tasks
from training.engine.environments.registry import find_environment
from training.engine.environments.tasks import Task
from training.engine.environments.tool_agent import ToolAgent

pytestmark = pytest.mark.usefixtures("installed")


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    started = OpenAIServer()
    yield started
    started.stop()


def call(number: int, action: str) -> dict[str, Any]:
    return {
        "id": f"c{number}",
        "type": "function",
        "function": {"name": "act", "arguments": json.dumps({"action": action})},
    }


def say(server: OpenAIServer, *calls: dict[str, Any], content: str | None = None) -> None:
    message = {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {})}
    server.answers.append((200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))


def test_what_the_calls_reach_is_graded_and_a_wrong_one_is_told_why(server: OpenAIServer) -> None:
    lamps = find_environment("lamps")
    (task,) = draw_tasks(lamps, 1, "train")
    world = lamps()
    world.reset(task)
    say(server, call(0, "fly"))
    actions = []
    while not world.done:
        actions.append(str(world.find_expert_action()))
        world.step(actions[-1])
        say(server, call(len(actions), actions[-1]))
    graded = ToolAgent().act(task, 0, Endpoint(server.url, "key", "policy"))
    assert graded.success and graded.score == 1.0 and graded.reward > 0
    assert len(server.asked) == len(actions) + 1 and server.headers[0]["Authorization"] == "Bearer key"
    told = server.asked[-1]["messages"]
    assert [one["role"] for one in told[:3]] == ["user", "assistant", "tool"]
    assert told[2]["content"].startswith("Error: 'fly' is no valid action here")
    say(server, content="I would rather not.")
    assert not ToolAgent().act(task, 0, Endpoint(server.url, "key")).success


def test_a_model_that_does_not_answer_is_a_fault_and_one_that_has_read_too_much_is_graded(
    server: OpenAIServer,
) -> None:
    (task,) = draw_tasks(find_environment("lamps"), 1, "train")
    server.answers.append((400, {"error": {"code": "context_length_exceeded", "message": "too long"}}))
    assert ToolAgent().act(task, 0, Endpoint(server.url, "key")).score < 1
    server.answers.append((503, {"error": {"code": "shutting_down", "message": "bye"}}))
    with pytest.raises(EnvironmentFault, match="the model answers with 503"):
        ToolAgent().act(task, 0, Endpoint(server.url, "key"))
    assert ToolAgent().find_faults(Task("t", "lampz", "x")) != []
