"""OpenHands' own SDK works on task folders: with a server that says what it is to do, and on weights in training.

It needs Python 3.12 or newer and its packages from PyPI (tests/newer_python.py)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.openai_server import USAGE, OpenAIServer
from tests.training.adapters.openhands_run import VARIABLE, WRITES, find_sdk, learn_by_openhands, write_task
from training.engine.environments.openhands import OpenHands
from training.engine.environments.outside import Endpoint
from training.engine.environments.protocol import EnvironmentFault
from training.engine.environments.tasks import Task
from training.engine.serving.faults import Fault

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("openhands")]


@pytest.fixture(scope="module")
def sdk() -> Path:
    return find_sdk()


@pytest.fixture(scope="module")
def agent(sdk: Path) -> Iterator[OpenHands]:
    """One program for all tests: it loads the SDK once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(sdk))
        agent = OpenHands()
        assert agent.find_missing() == []
        yield agent


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    started = OpenAIServer()
    yield started
    started.stop()


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return write_task(tmp_path / "trip")


def says(*calls: tuple[str, dict[str, Any]]) -> tuple[int, dict[str, Any]]:
    """An answer that calls these tools."""
    told = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": told}
    return 200, {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "policy",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": USAGE,
    }


def runs(command: str) -> tuple[int, dict[str, Any]]:
    return says(("terminal", {"command": command}))


FINISHES = says(("finish", {"message": "Done."}))


def is_running(mark: str) -> bool:
    return subprocess.run(["pgrep", "-f", mark], capture_output=True).returncode == 0


def test_its_installation_brings_no_torch_and_no_cuda(sdk: Path) -> None:
    listed = "import importlib.metadata as m; print(*(one.name for one in m.distributions()))"
    names = subprocess.run([sdk, "-c", listed], check=True, capture_output=True, text=True).stdout.lower().split()
    assert {"openhands-sdk", "openhands-tools"} <= set(names)
    assert not [name for name in names if name == "torch" or name.startswith(("nvidia", "cuda", "triton"))]


def test_it_works_in_a_fresh_copy_and_leaves_nothing_behind(
    agent: OpenHands, server: OpenAIServer, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers += [
        runs("cat wanted.txt > answer.txt; cat wanted.txt"),
        runs("env; ls -A ~"),
        runs("nohup sleep 98765 > /dev/null 2>&1 & disown; echo started"),
        says(("file_editor", {"command": "view", "path": "/no/such"}), ("think", {"thought": "hm"})),
        runs("nowhere"),
        FINISHES,
    ]
    graded = agent.act(task, 0, Endpoint(server.url, "the-key"))
    assert (graded.reward, graded.success) == (1.0, True)
    assert not server.answers and not is_running("sleep 98765")
    assert os.listdir(Path(task.facts["folder"]) / "workspace") == ["wanted.txt"]
    assert {headers["Authorization"] for headers in server.headers} == {"Bearer the-key"}
    first, last = server.asked[0], server.asked[-1]
    assert [tool["function"]["name"] for tool in first["tools"]] == ["terminal", "file_editor", "finish", "think"]
    assert first["model"] == "policy" and "stream" not in first and "temperature" not in first
    # Every call goes on with the one before it, so its tokens can be kept.
    for earlier, later in zip(server.asked, server.asked[1:], strict=False):
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"]
        assert later["tools"] == first["tools"]
    results = [message["content"] for message in last["messages"] if message["role"] == "tool"]
    assert results[0].startswith("travel\n") and "\x1b" not in "".join(results)
    home = next(line for line in results[1].splitlines() if line.startswith("HOME="))
    assert "openhands-" in home and VARIABLE not in results[1] and "DATABASE_URL" not in results[1]
    assert "does not exist" in results[3] and len(results) == 6

    # The next episode is another process of the same program, and knows nothing of this one.
    server.answers += [runs("env; ls -A ~"), FINISHES]
    assert agent.act(task, 1, Endpoint(server.url, "key")).reward == 0.0
    again = server.asked[-1]["messages"][3]["content"]
    assert home not in again and ".bash_history" not in again


def test_what_ends_an_episode_is_graded_and_what_breaks_it_is_a_fault(
    agent: OpenHands, server: OpenAIServer, task: Task
) -> None:
    endpoint = Endpoint(server.url, "key")
    solves = runs("cat wanted.txt > answer.txt")
    server.pick = "There is nothing to do."  # words without a call end the conversation
    assert agent.act(task, 0, endpoint).reward == 0.0 and len(server.asked) == 1
    too_long = Fault("context_length_exceeded", "This model's maximum context length is 512 tokens; …", "messages")
    server.answers += [solves, (too_long.status, {"error": too_long.as_body()})]
    assert agent.act(task, 1, endpoint).reward == 1.0
    short = msgspec.structs.replace(task, facts=task.facts | {"max_steps": 1})
    server.answers += [solves, FINISHES]
    assert agent.act(short, 2, endpoint).reward == 1.0 and list(server.answers) == [FINISHES]
    server.answers.clear()
    brief = msgspec.structs.replace(task, facts=task.facts | {"seconds": 15})
    server.answers += [solves, runs("sleep 43210")]
    assert agent.act(brief, 3, endpoint).reward == 1.0 and not is_running("sleep 43210")
    server.answers.append((400, {"error": Fault("unsupported_parameter", "leave it out", "n").as_body()}))
    with pytest.raises(EnvironmentFault, match=r"the OpenHands episode ended with 1: .*leave it out"):
        agent.act(task, 4, endpoint)


def test_the_weights_in_training_answer_it_and_keep_its_tokens() -> None:
    attempt = learn_by_openhands()
    for line in (attempt / "training_episodes.jsonl").read_text().splitlines():
        episode = json.loads(line)
        assert (episode["fault"], episode["total_reward"], len(episode["trajectory"])) == (None, 1.0, 2)
        (transcript,) = episode["transcripts"]
        assert (transcript["began"], transcript["calls"]) == ("the first call", 2)
        assert episode["trajectory"][0]["action"].startswith(WRITES)
        assert "[Command finished with exit code 0]" in episode["trajectory"][1]["state"]
    assert json.loads((attempt / "result.json").read_text())["metrics"]["drift"] < 1e-3
