"""A taskset of verifiers runs in a process of its own; a reward that fails is an error, and what is missing is named.

With a strict stub of the package, and with the package itself where RECKONER_TEST_VERIFIERS names an interpreter.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from django.core.management import call_command

from training.engine.environments.agents import RandomAgent, act_now
from training.engine.environments.episodes import end_episode, take_step
from training.engine.environments.factory import Calls
from training.engine.environments.protocol import EnvironmentFault
from training.engine.environments.verifiers.environment import TasksetEnvironment
from training.engine.environments.verifiers.taskset import Missing, RewardFailed, Taskset

HERE = Path(__file__).parent
TASKS = HERE / "verifiers_tasks"
REAL = os.environ.get("RECKONER_TEST_VERIFIERS")
BROKEN, BOXED = 5, 6


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has the stub."""
    script = tmp_path_factory.mktemp("python") / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={HERE / "verifiers_stub"} exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return script


@pytest.fixture(
    scope="module",
    params=["stub", pytest.param("real", marks=pytest.mark.skipif(not REAL, reason="needs RECKONER_TEST_VERIFIERS"))],
)
def taskset(request: pytest.FixtureRequest, stub: Path) -> Iterator[Taskset]:
    python = stub if request.param == "stub" else Path(str(REAL))
    with Taskset("reverse_words", python, folder=TASKS, config={"prefix": "Say backwards: "}) as opened:
        yield opened


def test_tasks_come_with_their_rewards_and_what_a_reply_alone_does_not_give(taskset: Taskset) -> None:
    tasks = taskset.list_tasks(0, 10)
    assert [task.index for task in tasks] == list(range(7))
    assert tasks[1].messages == ({"role": "user", "content": "Say backwards: stone"},)
    assert tasks[1].weights == {"exact": 2.0, "letters": 1.0}
    lacks = {task.index: task.lacks for task in tasks if task.lacks}
    assert lacks == {BOXED: ("it needs a container of ubuntu:24.04",)}


def test_a_reply_is_scored_and_a_reward_that_fails_is_no_score(taskset: Taskset) -> None:
    assert [taskset.score(0, reply).reward for reply in ("nomel", "lemon", "xxxxx")] == [3.0, 1.0, 0.0]
    scored = taskset.score(BROKEN, "nekorb")
    assert scored.metrics == {"length": 6.0}
    assert (scored.rewards["exact"].score, scored.failed) == (1.0, {"letters": "KeyError: 'no letters'"})
    with pytest.raises(RewardFailed, match="letters: KeyError"):
        _ = scored.reward


def test_everything_that_is_missing_is_named(stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    with pytest.raises(Missing) as missing:
        Taskset("reverse_words", Path(sys.executable), folder=tmp_path / "none", variables=["JUDGE_KEY"])
    assert [reason.partition(": ")[2] for reason in missing.value.reasons] == [
        *("is not set", "is not a folder", "verifiers is not installed there; pip install verifiers"),
    ]
    with pytest.raises(Missing, match="is not an interpreter"):
        Taskset("reverse_words", tmp_path / "python")
    with pytest.raises(Missing, match=r"taskset 'nothing': ModuleNotFoundError"):
        Taskset("nothing", stub, folder=TASKS)


def test_secrets_of_this_process_do_not_reach_the_taskset(
    stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://secret")
    monkeypatch.setenv("WANTED", "yes")
    (tmp_path / "spy.py").write_text(
        "import os\nraise ValueError(sorted({'DATABASE_URL', 'WANTED'} & set(os.environ)))\n"
    )
    with pytest.raises(Missing, match=r"ValueError: \['WANTED'\]"):
        Taskset("spy", stub, folder=tmp_path, variables=["WANTED"])


@pytest.fixture
def environment(stub: Path) -> Iterator[type[TasksetEnvironment]]:
    class Reverse(TasksetEnvironment):
        name: ClassVar[str] = "reverse"
        does: ClassVar[str] = "Words, to be written backwards."
        taskset: ClassVar[str] = "reverse_words"
        python: ClassVar[str] = str(stub)
        folder: ClassVar[str | None] = str(TASKS)
        most_reward: ClassVar[float] = 3.0

    yield Reverse
    Reverse.close_taskset()


def test_as_an_environment_it_pays_for_the_reply_and_a_failed_reward_leaves_the_episode_out(
    environment: type[TasksetEnvironment],
) -> None:
    train = [environment.draw_task(number, "train") for number in range(5)]
    assert [task.facts["index"] for task in train] == [0, 1, 2, 3, BROKEN]
    held_out = environment.draw_task(0, "heldout")
    assert held_out.facts["index"] == 4
    world = environment()
    state = world.reset(held_out)
    step = take_step(world, state, world.read_call("reply", {"text": "repap"}))
    episode = end_episode(world, held_out, 0, [step])
    assert (episode.total_reward, episode.success, episode.components) == (3.0, True, {"exact": 1.0, "letters": 1.0})
    assert act_now(RandomAgent(), world, held_out).score == 0.0
    calls = type("ReverseCalls", (Calls,), {"_environment": environment})()
    calls.reset(task=json.dumps({"id": "x", "environment": "reverse", "text": "Say it", "facts": {"index": BROKEN}}))
    calls._call("reply", {"text": "nekorb"})
    assert calls.get_reward() is None
    for number, why in ((5, "container of ubuntu"), (6, "has no task 7")):
        with pytest.raises(EnvironmentFault, match=why):
            environment.draw_task(number, "train")


def test_the_command_shows_tasks_and_scores_replies(stub: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        try:
            call_command("verifiers_tasks", "reverse_words", "--folder", str(TASKS), *arguments, stdout=out, stderr=err)
        except SystemExit as end:
            return int(str(end.code)), out.getvalue(), err.getvalue()
        return 0, out.getvalue(), err.getvalue()

    code, out, _ = run("--python", str(stub), "--json")
    assert (code, [task["scorable"] for task in json.loads(out)["tasks"]]) == (0, [True] * 6 + [False])
    replies = tmp_path / "replies.jsonl"
    replies.write_text("".join(json.dumps({"index": one, "reply": "nomel"}) + "\n" for one in (0, BROKEN, BOXED)))
    code, out, err = run("--python", str(stub), "--score", str(replies), "--json")
    assert (code, [one["reward"] for one in json.loads(out)["scored"]]) == (1, [3.0, None, None])
    assert "task 5: letters: KeyError" in err
    replies.write_text('{"index": "first"}\n')
    code, out, err = run("--python", str(stub), "--score", str(replies), "--tasks", "0", "--config", "[]")
    assert (code, out) == (2, "")
    assert all(fault in err for fault in ("--config: must be", "--tasks: 0", "replies.jsonl:1: "))
