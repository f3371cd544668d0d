"""OpenHands on task folders: what is missing is said, and its program is tested against a stub of the SDK."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from tests.openai_server import OpenAIServer
from tests.training.adapters.openhands_stub import FILES, PACKAGES
from tests.training.adapters.own_environment import make_environment
from training.engine.environments.folders import main as print_tasks
from training.engine.environments.folders import read_task_folder
from training.engine.environments.openhands import OpenHands
from training.engine.environments.outside import Endpoint, find_agent
from training.engine.environments.own_python import OwnPython
from training.engine.environments.protocol import EnvironmentFault
from training.engine.environments.tasks import Task

GRADER = """
import json, pathlib, sys
place = pathlib.Path(sys.argv[1])
answer = (place / "answer.txt").read_text() if (place / "answer.txt").exists() else ""
if answer == "break":
    raise SystemExit("the grader has lost its key")
print("a word before")
score = float(answer == (place / "wanted.txt").read_text())
print(json.dumps({"score": score, "components": {"written": float(bool(answer))}}))
"""
VARIABLE = "RECKONER_OPENHANDS_PYTHON"


class OnThisPython(OpenHands):
    """The stub runs on this interpreter's version; the SDK itself would not."""

    python: ClassVar[OwnPython] = OpenHands.python._replace(least=(3, 11))


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("openhands"), FILES, PACKAGES)


@pytest.fixture
def agent(interpreter: Path, monkeypatch: pytest.MonkeyPatch) -> OpenHands:
    monkeypatch.setenv(VARIABLE, str(interpreter))
    agent = OnThisPython()
    assert agent.find_missing() == []
    return agent


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    started = OpenAIServer()
    yield started
    started.stop()


def task_folder(folder: Path, instruction: str = "Write where to go.") -> Task:
    (folder / "workspace").mkdir(parents=True)
    (folder / "workspace" / "wanted.txt").write_text("travel")
    (folder / "instruction.md").write_text(instruction)
    (folder / "grader.py").write_text(GRADER)
    return read_task_folder(folder)


def test_what_is_missing_is_said_with_what_brings_it(
    interpreter: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    agent = find_agent("openhands")
    monkeypatch.delenv(VARIABLE, raising=False)
    (told,) = agent.find_missing()
    assert told.startswith(f"{VARIABLE} is not set: give the path of a Python 3.12 or newer that has openhands-sdk")
    assert "pip install openhands-sdk==1.58.2 openhands-tools==1.58.2" in told
    monkeypatch.setenv(VARIABLE, "/no/such/python")
    assert agent.find_missing() == [f"{VARIABLE}: /no/such/python is not a program"]
    monkeypatch.setenv(VARIABLE, str(interpreter))
    if sys.version_info < (3, 12):
        assert agent.find_missing() == [f"{VARIABLE}: {interpreter} is Python 3.11; 3.12 or newer is needed"]
    bare = make_environment(tmp_path / "bare", {}, {"openhands-sdk": "1.58.2"})
    monkeypatch.setenv(VARIABLE, str(bare))
    (told,) = OnThisPython().find_missing()
    assert f"has no openhands-tools: run {bare} -m pip install openhands-sdk==1.58.2" in told


def test_it_works_in_a_fresh_copy_by_the_base_url_and_what_is_left_is_graded(
    agent: OpenHands, server: OpenAIServer, tmp_path: Path
) -> None:
    task = task_folder(tmp_path / "trip")
    assert agent.find_faults(task) == []
    endpoint = Endpoint(server.url, "the-key")
    graded = agent.act(task, 0, endpoint)
    assert (graded.reward, graded.success, graded.components) == (1.0, True, {"written": 1.0})
    assert server.asked[0] == {"model": "policy", "messages": [{"role": "user", "content": "Write where to go."}]}
    assert server.headers[0]["Authorization"] == "Bearer the-key"
    assert sorted(path.name for path in (tmp_path / "trip/workspace").iterdir()) == ["wanted.txt"]
    server.pick = "health"
    assert agent.act(task, 1, endpoint).reward == 0.0
    # The model has read more than it can: the work is graded as it is.
    server.answers.append((400, {"error": {"code": "context_length_exceeded"}}))
    assert agent.act(task, 2, endpoint).components == {"written": 0.0}


def test_a_program_or_grader_that_fails_is_a_fault_and_one_that_takes_too_long_is_graded(
    agent: OpenHands, server: OpenAIServer, tmp_path: Path
) -> None:
    endpoint = Endpoint(server.url, "key")
    with pytest.raises(
        EnvironmentFault,
        match=r"episode ended with 1: openhands\S*: .*: the sandbox is gone",
    ):
        agent.act(task_folder(tmp_path / "fail", "fail"), 0, endpoint)
    server.pick = "break"
    with pytest.raises(EnvironmentFault, match="the grader ended with 1: the grader has lost its key"):
        agent.act(task_folder(tmp_path / "key"), 0, endpoint)
    slow = task_folder(tmp_path / "slow", "wait")
    slow = msgspec.structs.replace(slow, facts=slow.facts | {"seconds": 0.5})
    assert agent.act(slow, 0, endpoint).score == 0.0


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({}, "facts.folder: must be the absolute path of a task folder"),
        ({"folder": "/no/such"}, "facts.folder: /no/such is not a folder"),
        ({"folder": "/", "seconds": 0}, "facts.seconds: 0 must be a number above 0"),
    ],
)
def test_tasks_that_are_no_folder_are_refused(facts: dict[str, Any], says: str) -> None:
    assert says in OpenHands().find_faults(Task("t", "folder", "x", facts))


def test_folders_are_printed_as_tasks_or_their_faults_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = task_folder(tmp_path / "trip")
    assert print_tasks([str(tmp_path / "trip")]) == 0
    assert msgspec.json.decode(capsys.readouterr().out, type=Task) == task
    (tmp_path / "trip/grader.py").unlink()
    assert print_tasks([str(tmp_path / "trip"), str(tmp_path / "none")]) == 2
    told = capsys.readouterr()
    assert told.out == "" and "trip: has no grader.py\n" in told.err and "none: is not a folder" in told.err
