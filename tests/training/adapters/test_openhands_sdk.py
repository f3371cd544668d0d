"""OpenHands' own SDK works on task folders: with a server that says what it is to do, and on weights in training.

It needs Python 3.12 or newer and its packages from PyPI (tests/newer_python.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.newer_python import environment_with
from tests.openai_server import USAGE, OpenAIServer
from training.engine.environments import openhands
from training.engine.environments.folders import read_task_folder
from training.engine.environments.openhands import OpenHands
from training.engine.environments.outside import Endpoint
from training.engine.environments.protocol import EnvironmentFault
from training.engine.environments.tasks import Task
from training.engine.serving.faults import Fault

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("openhands")]
GRADER = """
import json, pathlib, sys

answer = pathlib.Path(sys.argv[1], "answer.txt")
print(json.dumps({"score": float(answer.is_file() and answer.read_text().strip() == "travel")}))
"""
VARIABLE = OpenHands.python.variable


@pytest.fixture(scope="module")
def sdk() -> Path:
    """The interpreter of an environment that has the SDK, as the documentation makes it."""
    named = os.environ.get(VARIABLE)
    return (
        Path(named)
        if named
        else environment_with("openhands", *OpenHands.python.install.split(), sources=(Path(openhands.__file__),))
    )


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
    (tmp_path / "trip" / "workspace").mkdir(parents=True)
    (tmp_path / "trip" / "workspace" / "wanted.txt").write_text("travel\n")
    (tmp_path / "trip" / "instruction.md").write_text("Write where to go into answer.txt.")
    (tmp_path / "trip" / "grader.py").write_text(GRADER)
    return read_task_folder(tmp_path / "trip")


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


TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' }}"
    "{{ message['content'][:20] if message['role'] == 'system' else message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""A tiny model cannot read the SDK's whole prompt."""
WRITES = '[{"name": "terminal", "arguments": {"command": "cat wanted.txt > answer.txt"}}]'


def run_engine(run: Path, spec: dict[str, Any], rows: list[dict[str, Any]], *arguments: str) -> Path:
    """The folder of the attempt."""
    run.mkdir()
    (run / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = {"run_id": run.name, "threads": 1, "samples": 0, **spec}
    (run / "spec.json").write_text(json.dumps(spec | {"data": {"train": "train.jsonl"} | spec["data"]}))
    command = [sys.executable, "-m", "training.engine", str(run), "--attempt", "1", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return run / "attempts" / "1"


def test_the_weights_in_training_answer_it_and_keep_its_tokens(
    sdk: Path, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(sdk))
    asked = [task.text, "Result of terminal: \n[The command completed with exit code 0.]"]
    taught = [
        {
            "id": str(n),
            "system": "<SOUL>\nYou are OpenH"[:20],
            "prompt": asked[n % 2],
            "completion": WRITES,
            "source": "human",
        }
        for n in range(64)
    ]
    shape = {"hidden": 32, "vocabulary": 500, "max_positions": 1024}
    spec: dict[str, Any] = {
        "method": "pretrain",
        "base": {"tiny": shape},
        "data": {"rows": "text"},
        "max_completion_tokens": 64,
        "optimiser": {"learning_rate": 0.01, "epochs": 16, "batch_size": 16},
    }
    base = run_engine(tmp_path / "base", spec, taught) / "model"
    (base / "chat_template.jinja").write_text(TEMPLATE)
    short = msgspec.to_builtins(msgspec.structs.replace(task, facts=task.facts | {"max_steps": 2}))
    spec = {
        "method": "grpo",
        "base": {"path": str(base)},
        "data": {"rows": "tasks"},
        "online": {"steps": 1, "prompts_per_step": 1, "group": 2, "alarms": None},
        "sampling": {"temperature": 0.1},
        "max_prompt_tokens": 800,
        "max_completion_tokens": 64,
    }
    attempt = run_engine(tmp_path / "run", spec, [short], "--agent", "openhands")
    for line in (attempt / "training_episodes.jsonl").read_text().splitlines():
        episode = json.loads(line)
        assert (episode["fault"], episode["total_reward"], len(episode["trajectory"])) == (None, 1.0, 2)
        (transcript,) = episode["transcripts"]
        assert (transcript["began"], transcript["calls"]) == ("the first call", 2)
        assert episode["trajectory"][0]["action"].startswith(WRITES)
        assert "[Command finished with exit code 0]" in episode["trajectory"][1]["state"]
    assert json.loads((attempt / "result.json").read_text())["metrics"]["drift"] < 1e-3
