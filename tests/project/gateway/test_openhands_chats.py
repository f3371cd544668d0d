"""An agent of OpenHands' SDK asks the gateway, and every answer of its conversation is a decision of one episode."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decisions.agents.chat_actions import without_ids
from decisions.models import Decision
from tests.newer_python import environment_with
from tests.openai_server import OpenAIServer
from tests.project.gateway.conftest import Gateway
from training.engine.environments import openhands
from training.engine.environments.openhands import OpenHands

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.xdist_group("gateway"),
]
PROGRAM = """
import sys

from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.tools.terminal import TerminalTool

url, key, workspace, streams = sys.argv[1:]
llm = LLM(
    model="openai/worker",
    base_url=url,
    api_key=key,
    extra_headers={"X-Reckoner-Episode": f"ticket-{streams}"},
    stream=streams == "streamed",
)
tools = [Tool(name=TerminalTool.name, params={"terminal_type": "subprocess"})]
agent = Agent(llm=llm, tools=tools, system_prompt="You work on tickets.")
pieces = []
conversation = Conversation(agent=agent, workspace=workspace, visualizer=None, token_callbacks=[pieces.append])
conversation.send_message("Close the ticket.")
conversation.run()
conversation.close()
print(conversation.state.execution_status.value, len(pieces))
"""


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": f"call_{name}", "type": "function", "function": function}]}


@pytest.mark.parametrize("streams", ["whole", "streamed"])
def test_a_conversation_is_an_episode_of_decisions(
    gateway: Gateway,
    key: str,
    chatting: Callable[..., Any],
    deploy: Callable[..., Any],
    serve: Callable[[], OpenAIServer],
    tmp_path: Path,
    streams: str,
) -> None:
    named = os.environ.get(OpenHands.python.variable)
    install = OpenHands.python.install.split()
    sdk = named or environment_with("openhands", *install, sources=(Path(openhands.__file__),))
    agent, server = chatting("worker", "tool_calls"), serve()
    version = deploy(agent, "gpt", server.url)
    server.messages += [
        calls("terminal", command="echo closed > ticket.txt; echo done"),
        calls("finish", message="It is closed."),
    ]
    ended = subprocess.run(
        [sdk, "-c", PROGRAM, f"{gateway.url}/v1", key, str(tmp_path), streams],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OPENHANDS_SUPPRESS_BANNER": "true"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    status, pieces = ended.stdout.split()[-2:]
    assert status == "finished" and (int(pieces) > 0) == (streams == "streamed")
    assert (tmp_path / "ticket.txt").read_text() == "closed\n"
    first, second = Decision.objects.order_by("id")
    assert first.episode == second.episode and first.episode.external_id == f"ticket-{streams}"
    assert {row.model_version for row in (first, second)} == {version}
    assert without_ids(first.action) == [
        {"name": "terminal", "arguments": {"command": "echo closed > ticket.txt; echo done"}}
    ]
    assert without_ids(second.action) == [{"name": "finish", "arguments": {"message": "It is closed."}}]
    assert first.options == ["terminal", "finish", "think"]
    assert [message["role"] for message in first.state["messages"]] == ["system", "user"]
    assert first.state["messages"][0]["content"] == [{"type": "text", "text": "You work on tickets."}]
    assert first.state["input"] == "Close the ticket."
    assert second.state["messages"][: len(first.state["messages"])] == first.state["messages"]
    result = second.state["messages"][-1]
    assert result["role"] == "tool" and "done" in json.dumps(result["content"])
    assert server.asked[1]["tools"] == server.asked[0]["tools"] == first.state["tools"]
