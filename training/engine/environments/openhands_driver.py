"""A program of the OpenHands environment: it loads the SDK once, and forks a process for each episode.

It is started by training.engine.environments.openhands_program with another interpreter, and imports nothing of ours.
Lines of JSON come on standard input: `{"start": N, …}` with what `Episode` has, and `{"stop": N}`, which kills an
episode. Lines go to standard output: `{"ready": true}` once the SDK is loaded, and `{"ended": N, "status": …}`. The
input's end ends the program and all episodes. An episode's status: 0 the agent has finished, or came to the end of its
steps or of the model's context; 1 it failed; below 0 the signal that killed it.

Loading takes seconds of the processor, and nothing that is loaded starts a thread, so a fork is a whole program.

Written against openhands-sdk and openhands-tools 1.58.2.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NamedTuple


class Episode(NamedTuple):
    """`log` is the file for its output; everything is text but `max_steps`."""

    base_url: str
    api_key: str
    model: str
    instruction: str
    workspace: str
    home: str
    log: str
    max_steps: int


class Episodes:
    """The processes that run. `answers` is the descriptor of the lines that go out."""

    def __init__(self, answers: int) -> None:
        self.answers = answers
        self.alive, self.held = os.pipe()  # `alive` ends in the episodes when this process does
        self.pids: dict[int, int] = {}
        self.homes: dict[int, str] = {}
        self.selector = selectors.DefaultSelector()
        self.selector.register(0, selectors.EVENT_READ)

    def serve(self) -> None:
        """Until the input ends."""
        waiting = b""
        while True:
            for key, _ in self.selector.select():
                if key.data is not None:
                    self._reap(key.fd, key.data)
                    continue
                if not (read := os.read(0, 65536)):
                    return
                *lines, waiting = (waiting + read).split(b"\n")
                for line in map(json.loads, lines):
                    if (stopped := line.pop("stop", None)) is None:
                        self._start(line.pop("start"), Episode(**line))
                    elif stopped in self.pids:
                        os.killpg(self.pids[stopped], signal.SIGKILL)

    def say(self, **line: Any) -> None:
        os.write(self.answers, json.dumps(line).encode() + b"\n")

    def _start(self, number: int, episode: Episode) -> None:
        ended, running = os.pipe()  # `running` is closed when the episode's process has ended
        pid = os.fork()
        if pid == 0:
            self._become(episode)  # never returns
        os.close(running)
        with contextlib.suppress(OSError):  # the child may have done it, or have ended
            os.setpgid(pid, pid)
        self.pids[number], self.homes[number] = pid, episode.home
        self.selector.register(ended, selectors.EVENT_READ, number)

    def _become(self, episode: Episode) -> None:
        status = 1
        try:
            os.setpgid(0, 0)
            for descriptor in (self.held, self.answers):
                os.close(descriptor)
            log = os.open(episode.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            nothing = os.open(os.devnull, os.O_RDONLY)
            for descriptor, place in ((nothing, 0), (log, 1), (log, 2)):
                os.dup2(descriptor, place)
            os.chdir(episode.workspace)
            os.environ["HOME"] = episode.home
            threading.Thread(target=_end_with, args=(self.alive,), daemon=True).start()
            run(episode)
            status = 0
        except BaseException:  # noqa: BLE001 - a fork must never go on as the program that it came from
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _reap(self, descriptor: int, number: int) -> None:
        self.selector.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(self.pids.pop(number), 0)
        _kill_left(self.homes.pop(number))
        self.say(ended=number, status=os.waitstatus_to_exitcode(status))


def load() -> None:
    """Imports what an episode needs, what the SDK itself would only import with the first call, too."""
    import httpcore  # noqa: F401
    import openai.resources  # noqa: F401
    import openhands.sdk
    import openhands.sdk.conversation.exceptions
    import openhands.sdk.llm.exceptions
    import openhands.tools.file_editor
    import openhands.tools.terminal  # noqa: F401


def run(episode: Episode) -> None:
    """One agent, one task, one conversation."""
    from openhands.sdk import LLM, Agent, Conversation, Tool
    from openhands.sdk.conversation.exceptions import ConversationRunError
    from openhands.sdk.llm.exceptions import LLMContextWindowExceedError
    from openhands.tools.file_editor import FileEditorTool
    from openhands.tools.terminal import TerminalTool

    llm = LLM(
        model=f"openai/{episode.model}",  # LiteLLM's name for any server of OpenAI's kind
        base_url=episode.base_url,
        api_key=episode.api_key,
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
        agent=agent, workspace=episode.workspace, max_iteration_per_run=episode.max_steps, visualizer=None
    )
    try:
        conversation.send_message(episode.instruction)
        conversation.run()
    except ConversationRunError as error:
        if not isinstance(error.original_exception, LLMContextWindowExceedError):
            raise
    # It is not closed, which waits seconds for the shell: the process ends, and the program kills what is left.


def _kill_left(home: str) -> None:
    """Ends what the agent's shell has started and left in sessions of their own. Their home tells whose they are, where
    the system shows it (Linux)."""
    for place in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # not ours, or gone
            if f"HOME={home}".encode() in place.read_bytes().split(b"\0"):
                os.kill(int(place.parent.name), signal.SIGKILL)


def _end_with(alive: int) -> None:
    while os.read(alive, 1):
        continue
    os.killpg(0, signal.SIGKILL)


def main() -> int:
    answers = os.dup(1)
    os.dup2(2, 1)  # what the SDK prints is no answer
    load()
    episodes = Episodes(answers)
    episodes.say(ready=True)
    episodes.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
