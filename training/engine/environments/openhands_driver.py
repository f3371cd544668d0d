"""A program of the OpenHands environment: one agent, one task, one conversation.

It is started by training.engine.environments.openhands with another interpreter, and imports nothing of ours. Standard
input has one line of JSON: base_url, api_key, model, instruction, workspace, max_steps. The input's end ends the
program. Exit codes: 0 the agent has finished, or came to the end of its steps or of the model's context; 1 it failed.

Written against openhands-sdk and openhands-tools 1.58.2.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any


def main() -> int:
    asked: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_the_engine, daemon=True).start()
    from openhands.sdk import LLM, Agent, Conversation, Tool
    from openhands.sdk.conversation.exceptions import ConversationRunError
    from openhands.sdk.llm.exceptions import LLMContextWindowExceedError
    from openhands.tools.file_editor import FileEditorTool
    from openhands.tools.terminal import TerminalTool

    llm = LLM(
        model=f"openai/{asked['model']}",  # LiteLLM's name for any server of OpenAI's kind
        base_url=asked["base_url"],
        api_key=asked["api_key"],
        api_mode="chat",
        native_tool_calling=True,
        force_string_serializer=True,
        caching_prompt=False,
        reasoning_effort=None,
        num_retries=0,
        timeout=None,
        usage_id="agent",
    )
    agent = Agent(
        llm=llm,
        tools=[
            # Not tmux, whose server would outlive the episode.
            Tool(name=TerminalTool.name, params={"terminal_type": "subprocess"}),
            Tool(name=FileEditorTool.name),
        ],
        system_prompt_kwargs={"cli_mode": True},
    )
    conversation = Conversation(
        agent=agent, workspace=asked["workspace"], max_iteration_per_run=asked["max_steps"], visualizer=None
    )
    try:
        conversation.send_message(asked["instruction"])
        conversation.run()
    except ConversationRunError as error:
        if not isinstance(error.original_exception, LLMContextWindowExceedError):
            raise
    finally:
        conversation.close()
    return 0


def _end_with_the_engine() -> None:
    # os.read, because a daemon thread inside sys.stdin would hold its lock when the interpreter exits.
    while os.read(0, 4096):
        continue
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
