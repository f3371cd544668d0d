"""The program at its border: faults, exit codes, and what it must not import or write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from engine_world import World, engine, labelled, read_events, write_run

from tools.warm import stand_in
from training.engine.spec.methods import WHAT_LACKS, Need

ROOT = Path(__file__).resolve().parents[3]
BASE: dict[str, Any] = {"method": "pretrain", "base": {"tiny": {}}}
ONLINE: dict[str, Any] = {"method": "grpo", "base": {"path": "/nowhere/at/all"}}
LOGGED = [{"id": str(i), "prompt": f"note {i}", "options": ["a", "b"], "action": "a"} for i in range(3)]
REWARDED = [row | {"reward": 1.0} for row in LOGGED]
MANY_ALIKE = [row | {"id": f"{n}/{row['id']}"} for row in REWARDED for n in range(20)]


def faults_of(capsys: pytest.CaptureFixture[str], run: Path) -> list[str]:
    """Runs the engine on something bad: one JSON object on stderr, exit code 2, nothing written."""
    before = sorted(run.rglob("*"))
    assert engine(run) == 2
    told = json.loads(capsys.readouterr().err)
    assert told["error"] == "bad_spec"
    assert sorted(run.rglob("*")) == before
    faults: list[str] = told["faults"]
    return faults


def test_every_fault_of_the_fields_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = BASE | {"seed": -1, "optimiser": {"epochs": 0, "learning_rat": 1}, "lora": {"targets": "all"}}
    faults = faults_of(capsys, write_run(tmp_path / "run", spec, train=labelled(5, 1)))
    assert {fault.split(":")[0] for fault in faults} == {
        "seed",
        "optimiser.epochs",
        "optimiser.learning_rat",
        "lora.targets",
    }


def test_a_number_must_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reward = [{"name": "matches_answer", "parameters": {"right": float("nan")}, "weight": float("inf")}]
    faults = faults_of(capsys, write_run(tmp_path / "run", ONLINE | {"reward": reward}, train=labelled(5, 1)))
    assert faults and all(fault.startswith("reward.0") for fault in faults)


def test_every_fault_of_the_method_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = {"method": "grpo", "base": {"tiny": {}}, "evaluate": {}}
    faults = faults_of(capsys, write_run(tmp_path / "run", spec))
    assert [fault.split(":")[0] for fault in faults] == ["base.tiny", "data.train", "data.heldout", "reward"]


def test_every_fault_of_the_surroundings_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = ONLINE | {"reward": [{"name": "praise"}]}
    rows = labelled(3, 1)
    rows[1]["answer"] = "elsewhere"
    run = write_run(tmp_path / "run", spec, train=rows, heldout=[{"id": "x"}])
    faults = faults_of(capsys, run)
    assert [fault.split(":")[0] for fault in faults] == ["base.path", "reward", "train.jsonl", "heldout.jsonl"]
    assert faults[2].startswith("train.jsonl:2: answer:")


@pytest.mark.parametrize(
    ("method", "rows", "lacks"),
    [
        ("all_action", LOGGED, {Need.PROPENSITY, Need.REWARDS}),
        ("ppo", REWARDED, {Need.PROPENSITY_OR_MODEL}),
        ("ppo", MANY_ALIKE, {Need.PROPENSITY_OR_MODEL}),
        ("grpo", LOGGED, {Need.GROUPS, Need.REWARDS}),
        ("grpo", REWARDED, {Need.GROUPS}),
        ("kto", LOGGED, {Need.RIGHT_AND_WRONG, Need.REWARDS}),
        ("kto", REWARDED, {Need.RIGHT_AND_WRONG}),
    ],
)
def test_what_the_rows_lack_is_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str, rows: list[dict[str, Any]], lacks: set[Need]
) -> None:
    (tmp_path / "config.json").write_text("{}")
    spec = {"method": method, "base": {"path": str(tmp_path)}, "data": {"rows": "logged"}}
    faults = faults_of(capsys, write_run(tmp_path / "run", spec, train=rows))
    assert {fault.partition(" needs ")[2] for fault in faults} == {WHAT_LACKS[lack] for lack in lacks}


@pytest.mark.parametrize(
    ("method", "kind"),
    [("pretrain", "labelled"), ("sft", "labelled"), ("dpo", "preferences"), ("grpo", "labelled"), ("ppo", "labelled")],
)
def test_labels_that_nothing_replays_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str, kind: str
) -> None:
    spec = {
        "method": method,
        "base": {"path": "some/base"},
        "data": {"rows": kind},
        "reward": [{"name": "matches_answer"}],
    }
    faults = faults_of(capsys, write_run(tmp_path / "run", spec, train=labelled(3, 1), replay=labelled(3, 2)))
    assert faults == [f"data.replay: method {method} learns from {kind} rows and replays none; leave it out"]


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_spec_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None) -> None:
    if content is not None:
        (tmp_path / "spec.json").write_text(content)
    assert len(faults_of(capsys, tmp_path)) == 1


def test_an_attempts_folder_is_never_shared(tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    spec = {"method": "evaluate", "base": {"path": str(world.base)}, "evaluate": {"free_rows": 0}}
    run = write_run(tmp_path / "run", spec, heldout=world.heldout[:10])
    assert engine(run, "--attempt", "3") == 0
    assert engine(run, "--attempt", "3") == 2
    assert "attempt" in json.loads(capsys.readouterr().err)["faults"][0]
    assert engine(run) == 0
    assert sorted(path.name for path in (run / "attempts").iterdir()) == ["3", "4"]


def test_a_failure_is_written_down(tmp_path: Path, world: World) -> None:
    """A component that has no value for fresh decisions fails the run; it does not reward them with 0."""
    spec = {
        "method": "grpo",
        "base": {"path": str(world.base)},
        "reward": [{"name": "verdict"}],
        "online": {"steps": 1, "prompts_per_step": 2},
    }
    run = write_run(tmp_path / "run", spec, train=world.stream[:4])
    assert engine(run) == 1
    last = read_events(run)[-1]
    assert last["kind"] == "failed" and "verdict" in last["error"]
    assert not (run / "attempts" / "1" / "result.json").exists()


def test_a_bad_spec_is_refused_without_torch() -> None:
    """In a fresh interpreter, because this one has it."""
    code = (
        "import sys\n"
        "from training.engine.__main__ import main\n"
        "assert main(['/nowhere']) == 2\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_all_work_is_done_without_django(tmp_path: Path) -> None:
    """What the process that engines fork from has loaded: the whole engine and its server, in an interpreter of its
    own."""
    program = tmp_path / "loaded.py"
    program.write_text("import sys\nprint(*{name.partition('.')[0] for name in sys.modules})\n")
    command = stand_in(Path(os.environ["RECKONER_VAR"]), str(program))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"training", "torch", "peft", "starlette"} <= loaded
    assert loaded.isdisjoint({"django", "rest_framework", "celery"})


def test_help_explains_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        engine(Path("--help"))
    assert left.value.code == 0
    assert "75" in capsys.readouterr().out
