"""Stopping and dying: a run that was interrupted ends with the weights of one that was not, bit for bit."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_world import World, engine, logged, read_events, read_result, write_run

from tests.once import made_once
from training.engine.attempt.checkpoints import MARKER, STATE, mark_complete
from training.engine.spec.run_spec import read_spec

Launcher = Callable[..., subprocess.Popen[bytes]]
LONG = {"learning_rate": 1e-3, "epochs": 3, "batch_size": 16}


def wait_for(run: Path, process: subprocess.Popen[bytes], seen: Callable[[dict[str, Any]], bool]) -> None:
    """Until an event of attempt 1 is seen; the process must not end before."""
    deadline = time.monotonic() + 120
    while not any(seen(event) for event in read_events(run)):
        assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.02)


def underway(event: dict[str, Any]) -> bool:
    return event["kind"] == "metric" and event["step"] > 0


@pytest.fixture(scope="module")
def ppo_run(world: World) -> Path:
    """PPO over an adapter with dropout: random draws, a value head, shuffled minibatches, stages. Uninterrupted."""
    spec = {
        "method": "ppo",
        "base": {"path": str(world.base)},
        "lora": {"r": 4, "dropout": 0.1},
        "optimiser": {"learning_rate": 1e-3, "batch_size": 16},
        "online": {"steps": 24, "prompts_per_step": 32, "inner_epochs": 1, "curriculum": {"stages": 6}},
        "reward": [{"name": "matches_answer"}],
        "samples": 4,  # looking at the model between two updates must change nothing
    }

    def make(folder: Path) -> None:
        assert engine(write_run(folder / "run", spec, train=world.stream[:300])) == 0

    return made_once("ppo", make) / "run"


def interrupted_copy(run: Path, folder: Path) -> Path:
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("attempts"))
    return folder


def stopped(run: Path, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The last event of a run that has left a checkpoint and no result."""
    assert process.wait(60) == 75
    *_, left, last = read_events(run)
    assert (left["kind"], last["kind"]) == ("checkpoint", "stopped")
    assert not (run / "attempts" / "1" / "result.json").exists()
    return last


def test_the_end_of_standard_input_stops_what_is_supervised(ppo_run: Path, tmp_path: Path, launch: Launcher) -> None:
    run = interrupted_copy(ppo_run, tmp_path / "run")
    process = launch(str(run), "--supervised")
    wait_for(run, process, underway)
    assert process.stdin is not None
    process.stdin.close()
    assert stopped(run, process)["reason"] == "end of standard input"


def test_a_stopped_run_goes_on_bit_for_bit(ppo_run: Path, tmp_path: Path, launch: Launcher) -> None:
    run = interrupted_copy(ppo_run, tmp_path / "run")
    process = launch(str(run))
    wait_for(run, process, underway)
    process.send_signal(signal.SIGTERM)
    last = stopped(run, process)
    assert last["reason"] == "SIGTERM"

    assert engine(run, "--attempt", "7") == 0
    started = next(event for event in read_events(run, 7) if event["kind"] == "started")
    assert started["resumed_from"] == f"1/checkpoints/step-{last['step']:08d}"
    resumed, whole = read_result(run, 7), read_result(ppo_run)
    assert resumed["weights_sha256"] == whole["weights_sha256"]
    assert {resumed["metrics"][name] == whole["metrics"][name] for name in ("loss_at_start", "loss_at_end")} == {True}
    samples = [json.loads((run / f"attempts/{number}/samples.json").read_text()) for number in (1, 7)]
    assert samples[0]["first"] == samples[1]["first"]  # by the base, also where the weights are those of a checkpoint
    assert samples[1]["newest"]["step"] == 24 and samples[1]["newest"] != samples[1]["first"]


@pytest.mark.parametrize("method", ["posterior", "all_action", "dpo", "ppo"])
def test_a_killed_run_goes_on_bit_for_bit(tmp_path: Path, world: World, launch: Launcher, method: str) -> None:
    spec = {
        "method": method,
        "base": {"path": str(world.base)},
        "optimiser": LONG | {"token_dropout": 0.1},
        "checkpoint_every_seconds": 0.1,
    }
    log = logged(world.stream[:320], world.probabilities[:320], 1)
    data = {"train": log, "replay": world.taught}
    if method == "dpo":
        pair = {"chosen": "travel", "rejected": "work"}
        data = {"train": [{"id": row["id"], "prompt": row["prompt"], **pair} for row in log]}
    elif method == "ppo":  # acts afresh, paid by a reward model of the log
        data["train"] = [row | {"propensity": None} for row in log]
        spec["data"] = {"rows": "logged"}
    whole = write_run(tmp_path / "whole", spec, **data)
    run = interrupted_copy(whole, tmp_path / "killed")
    process = launch(str(run))
    wait_for(run, process, lambda event: event["kind"] == "checkpoint" and event["step"] > 0)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    assert process.stderr is not None
    process.stderr.read()  # to its end: nothing of the attempt is alive
    assert not (run / "attempts" / "1" / "result.json").exists()

    assert engine(run) == 0
    assert engine(whole) == 0
    assert next(event for event in read_events(run, 2) if event["kind"] == "started")["resumed_from"]
    assert read_result(run, 2)["weights_sha256"] == read_result(whole)["weights_sha256"]
    if method == "ppo":
        fitted = [
            any(
                "reward model" in event.get("message", "")
                for event in read_events(run, n)
                if event["kind"] == "progress"
            )
            for n in (1, 2)
        ]
        assert fitted == [True, False], "the checkpoint holds what the reward model pays"
        assert read_result(run, 2)["warnings"] == read_result(whole)["warnings"]


def test_without_its_random_state_a_run_ends_elsewhere(ppo_run: Path, tmp_path: Path, launch: Launcher) -> None:
    """So equal weights say that the random state was restored, and not that the run draws nothing."""
    run = interrupted_copy(ppo_run, tmp_path / "run")
    process = launch(str(run))
    wait_for(run, process, underway)
    process.send_signal(signal.SIGTERM)
    stopped(run, process)
    [*_, newest] = sorted((run / "attempts/1/checkpoints").glob("step-*"))
    state = torch.load(newest / STATE, weights_only=True)
    state["generators"]["cpu"] = torch.Generator().manual_seed(99).get_state()
    torch.save(state, newest / STATE)
    mark_complete(newest, json.loads((newest / MARKER).read_text())["step"], read_spec(run))

    assert engine(run, "--attempt", "2") == 0
    started = next(event for event in read_events(run, 2) if event["kind"] == "started")
    assert started["resumed_from"] == f"1/checkpoints/{newest.name}"
    assert read_result(run, 2)["weights_sha256"] != read_result(ppo_run)["weights_sha256"]


def test_a_damaged_checkpoint_is_passed_over(ppo_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(ppo_run, run)
    [newest] = sorted((run / "attempts/1/checkpoints").glob("step-*"))
    older = newest.with_name("step-00000000")
    shutil.copytree(newest, older)
    state = newest / "state.pt"
    state.write_bytes(state.read_bytes()[:-100] + bytes(100))
    unfinished = newest.with_name("step-99999999")
    shutil.copytree(newest, unfinished)
    (unfinished / "COMPLETE").unlink()
    assert engine(run) == 0
    started = next(event for event in read_events(run, 2) if event["kind"] == "started")
    assert started["resumed_from"] == "1/checkpoints/step-00000000"
    assert "damaged" in read_result(run, 2)["warnings"][0]


def test_a_checkpoint_of_another_spec_is_left_alone(ppo_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(ppo_run, run)
    spec = json.loads((run / "spec.json").read_text())
    spec["seed"] = 9
    spec["online"]["steps"] = 2
    (run / "spec.json").write_text(json.dumps(spec))
    assert engine(run) == 0
    result = read_result(run, 2)
    assert result["steps"] == 2
    assert "another spec" in result["warnings"][0]


def test_a_finished_run_is_not_trained_again(ppo_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(ppo_run, run)
    assert engine(run) == 0
    assert not [event for event in read_events(run, 2) if event["kind"] == "metric"]
    assert read_result(run, 2)["weights_sha256"] == read_result(run, 1)["weights_sha256"]
