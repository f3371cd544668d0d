"""Two processes train a run together, as `accelerate launch` starts them: what one would learn, and stopping as one."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from engine_world import World, engine, read_events, read_result, write_run
from safetensors.torch import load_file

from tools.ports import free_port
from tools.warm import stand_in
from training.engine.environments.equations import Equations
from training.engine.environments.protocol import draw_tasks
from training.engine.spec.run_spec import EXIT_STOPPED
from training.runs import launcher

Launcher = Callable[..., subprocess.Popen[bytes]]
ROOT = Path(__file__).resolve().parents[3]
GRPO = {
    "method": "grpo",
    "optimiser": {"learning_rate": 1e-3, "batch_size": 8},
    "online": {"steps": 3, "prompts_per_step": 16, "group": 4, "curriculum": {}},
    "reward": [{"name": "matches_answer"}],
}
TEXTS = {
    "method": "sft",
    "optimiser": {"learning_rate": 1e-3, "batch_size": 16, "epochs": 1},
    "max_completion_tokens": 32,
    "data": {"rows": "text"},
}

EPISODES = {
    "method": "grpo",
    "optimiser": {"learning_rate": 1e-3, "batch_size": 4},
    "online": {"steps": 2, "prompts_per_step": 4, "group": 2, "kl": 0.1},
    "max_prompt_tokens": 64,
    "data": {"rows": "tasks"},
}


def rows_of(spec: dict[str, Any], world: World) -> list[dict[str, Any]]:
    if "data" not in spec:
        return world.taught
    if spec["data"]["rows"] == "tasks":
        return [msgspec.to_builtins(task) for task in draw_tasks(Equations, 12, "train")]
    return [
        {"id": row["id"], "prompt": row["prompt"], "completion": json.dumps({"folder": row["answer"]})}
        for row in world.taught[:48]
    ]


def two(launch: Launcher, run: Path) -> list[subprocess.Popen[bytes]]:
    """The processes of ranks 0 and 1, with what accelerate and torchrun tell them."""
    port = str(free_port())
    around = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    device = {"RECKONER_DEVICE": "cpu"}
    return [launch(str(run), RANK=rank, LOCAL_RANK=rank, **around, **device) for rank in "01"]


UNCOMPARED = {"grad_norm", "learning_rate", "loss_at_start", "loss_at_end"}


def read_metrics(run: Path) -> dict[str, float]:
    """The result's; of texts the means over all steps: TRL gives them since it last logged, which is by the clock."""
    result = read_result(run)
    if json.loads((run / "spec.json").read_text())["data"].get("rows") != "text":
        return result["metrics"]
    means = dict.fromkeys(result["metrics"].keys() - UNCOMPARED, 0.0)
    step = 0
    for event in read_events(run):
        if event["kind"] == "metric":
            for name in means:
                means[name] += event["values"][name] * (event["step"] - step) / result["steps"]
            step = event["step"]
    return means


def wait_for(run: Path, seen: Callable[[dict[str, Any]], bool]) -> None:
    deadline = time.monotonic() + 120
    while not any(seen(event) for event in read_events(run)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("spec", [GRPO, EPISODES, TEXTS], ids=["ours", "episodes", "texts through TRL"])
def test_two_processes_learn_what_one_learns(
    spec: dict[str, Any], world: World, tmp_path: Path, launch: Launcher
) -> None:
    weights = {}
    for name in ("one", "both"):
        whole = spec | {"base": {"path": str(world.base)}}
        run = write_run(tmp_path / name, whole, train=rows_of(spec, world))
        if name == "one":
            assert engine(run) == 0
        else:
            assert [process.wait(120) for process in two(launch, run)] == [0, 0]
        weights[name] = load_file(run / "attempts/1/model/model.safetensors")
    before = load_file(world.base / "model.safetensors")
    assert max(float((weights["one"][name] - before[name]).abs().max()) for name in before) > 1e-4
    for name, one in weights["one"].items():
        # Attention does not change with the bias of its keys, whose gradient is rounding alone.
        assert name.endswith("k_proj.bias") or float((one - weights["both"][name]).abs().max()) < 1e-5, name
    events = read_events(tmp_path / "both")
    assert events[0]["processes"] == 2 and [event["seq"] for event in events] == list(range(len(events)))
    one, both = (read_metrics(tmp_path / name) for name in ("one", "both"))
    assert both == pytest.approx(one, rel=1e-3, abs=1e-4)


@pytest.mark.slow
def test_a_stop_of_one_process_stops_both_at_the_same_step(world: World, tmp_path: Path, launch: Launcher) -> None:
    """One process alone can go on from their checkpoint."""
    spec = GRPO | {"base": {"path": str(world.base)}, "online": GRPO["online"] | {"steps": 80}}  # type: ignore[operator]
    run = write_run(tmp_path / "run", spec, train=world.taught)
    main, other = two(launch, run)
    wait_for(run, lambda event: event["kind"] == "metric")
    other.send_signal(signal.SIGTERM)
    assert (main.wait(60), other.wait(60)) == (75, 75)
    *_, left, stopped = read_events(run)
    assert (left["kind"], stopped["kind"]) == ("checkpoint", "stopped") and left["step"] == stopped["step"] < 80
    assert engine(run) == 0
    assert read_events(run, 2)[0]["resumed_from"] and read_result(run, 2)["steps"] == 80


@pytest.fixture
def warm_accelerate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm_engine: None) -> dict[str, str]:
    """`accelerate launch` and what it starts have imported torch: the environment by which it takes a warm Python."""
    *warm, module = stand_in(Path(os.environ["RECKONER_VAR"]), launcher.ACCELERATE[-1])
    monkeypatch.setattr(launcher, "ACCELERATE", (*warm, module))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nshift 2  # -u -m\nexec {shlex.join(warm)} "$@"\n')
    python.chmod(0o755)
    return {"PYTHON_EXEC": str(python)}


@pytest.mark.slow
def test_accelerate_launches_the_engine_and_passes_a_stop_on(
    world: World, tmp_path: Path, settings: Any, warm_accelerate: dict[str, str]
) -> None:
    settings.ACCELERATE = "--multi_gpu --num_processes 2 --num_machines 1 --main_process_port 0"
    spec = GRPO | {"base": {"path": str(world.base)}, "online": {"steps": 100_000}}
    run = write_run(tmp_path / "run", spec, train=world.taught)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*launcher.engine_command(), str(run), "--attempt", "1", "--supervised"],
            cwd=ROOT,
            env=launcher.engine_environment() | warm_accelerate | {"RECKONER_DEVICE": "cpu"},
            stdin=subprocess.PIPE,
            stderr=log,
        )
        try:
            wait_for(run, lambda event: event["kind"] == "metric")
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        finally:
            process.kill()
            process.communicate()
    assert read_events(run)[0]["processes"] == 2
    assert launcher.find_engine_code(code, run / "attempts/1", (tmp_path / "log").read_text()) == EXIT_STOPPED


@pytest.mark.parametrize(
    ("environment", "changes", "says"),
    [
        ({"WORLD_SIZE": "3"}, {}, "optimiser.batch_size: 16 rows of text cannot be shared evenly by 3 processes"),
        ({"WORLD_SIZE": "3"}, {"method": "grpo", "reward": GRPO["reward"]}, "online.prompts_per_step: 32 rows"),
        ({"ACCELERATE_USE_CPU": "True", "MASTER_PORT": "29500"}, {}, "--cpu starts a single process"),
    ],
    ids=["rows", "groups", "accelerate alone"],
)
def test_what_the_processes_cannot_share_is_refused_before_anything_starts(
    environment: dict[str, str],
    changes: dict[str, Any],
    says: str,
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = TEXTS | {"base": {"path": "/nowhere/at/all"}} | changes
    run = write_run(tmp_path / "run", spec | {"base": {"path": str(world.base)}}, train=rows_of(TEXTS, world))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert engine(run) == 2
    assert says in capsys.readouterr().err and not (run / "attempts").exists()
