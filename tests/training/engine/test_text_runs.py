"""Training of free text through TRL: methods learn and keep valid JSON, stop and go on, and refuse what they lack."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_world import OPTIONS, World, engine, read_events, read_result, write_run

from tests.once import made_once
from training.engine.spec.methods import WHAT_LACKS, Need

OF_TEXT = {"max_completion_tokens": 32, "data": {"rows": "text"}}
NOWHERE = {"base": {"path": "/nowhere/at/all"}}


def filing(folder: str) -> str:
    return json.dumps({"folder": folder})


def texts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The right answers as JSON."""
    return [{"id": row["id"], "prompt": row["prompt"], "completion": filing(row["answer"])} for row in rows]


def known(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same, which people wrote: a model can be measured on them."""
    return [row | {"source": "human"} for row in texts(rows)]


def tried(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Two answers to each prompt, the right one and one that is not, with their rewards."""
    log = []
    for place, row in enumerate(rows):
        wrong = random.Random(place).choice([option for option in OPTIONS if option != row["answer"]])
        for name, reward in ((row["answer"], 1.0), (wrong, 0.0)):
            log.append(
                {"id": f"{row['id']}/{name}", "prompt": row["prompt"], "completion": filing(name), "reward": reward}
            )
    return log


@pytest.fixture(scope="module")
def writer(world: World) -> Path:
    """The run of a model that has learnt to write JSON, and half of what to write."""
    spec = {
        "method": "sft",
        "base": {"path": str(world.base)},
        "optimiser": {"learning_rate": 5e-3, "epochs": 6, "batch_size": 16},
        "evaluate": {},
        "samples": 3,
    }

    def make(folder: Path) -> None:
        demonstrations = texts(world.taught + world.stream[:120])
        run = write_run(folder / "run", OF_TEXT | spec, train=demonstrations, heldout=known(world.heldout[:100]))
        assert engine(run) == 0

    return made_once("writer", make) / "run"


@pytest.mark.slow
def test_sft_teaches_valid_json_and_says_what_was_before(writer: Path) -> None:
    result = read_result(writer)
    before, after = result["scores"]["base"], result["scores"]["trained"]
    assert before["valid_share"] < 0.1 and after["valid_share"] > 0.9
    assert after["accuracy"] > before["accuracy"] + 0.2 and after["log_p"] > before["log_p"] + 5
    assert result["output"] == "model" and result["rows"] == 240
    lines = (writer / "attempts/1/predictions.jsonl").read_text().splitlines()
    predictions = [json.loads(line) for line in lines]
    assert len(predictions) == 200 and {row["model"] for row in predictions} == {"base", "trained"}
    mine = [row for row in predictions if row["model"] == "trained"]
    assert after["accuracy"] == pytest.approx(sum(row["correct"] for row in mine) / 100)
    assert after["probability_of_right"] == pytest.approx(sum(row["p_answer"] for row in mine) / 100)


@pytest.mark.slow
def test_a_run_of_text_tells_what_every_run_tells_and_writes_into_its_attempt_alone(writer: Path) -> None:
    events = read_events(writer)
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert {"started", "progress", "metric", "checkpoint", "samples", "finished"} == {event["kind"] for event in events}
    metric = [event for event in events if event["kind"] == "metric"][-1]
    common = {"loss", "grad_norm", "learning_rate", "peak_memory_gb", "tokens_per_second"}
    assert common | {"valid_share", "heldout_accuracy"} <= metric["values"].keys()
    result = read_result(writer)
    assert metric["step"] == result["steps"] == 6 * 240 // 16
    assert result["metrics"]["loss_at_end"] < result["metrics"]["loss_at_start"] and result["rewards"] is None
    assert sorted(path.name for path in writer.iterdir()) == ["attempts", "data", "spec.json"]


@pytest.mark.slow
def test_a_run_of_text_shows_what_is_written_now_beside_what_was_written_before(writer: Path) -> None:
    samples = json.loads((writer / "attempts/1/samples.json").read_text())
    assert samples["source"] == "heldout" and len(samples["rows"]) == 3
    first, newest = samples["first"], samples["newest"]
    assert (first["step"], newest["step"]) == (0, read_result(writer)["steps"])
    assert not any(reply["valid"] for reply in first["replies"]) and all(reply["valid"] for reply in newest["replies"])
    for row, reply in zip(samples["rows"], newest["replies"], strict=True):
        assert reply["right"] == (reply["said"] == row["answer"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "changes", "gain", "rows"),
    [
        ("kto", {"optimiser": {"learning_rate": 1e-3, "batch_size": 32, "epochs": 1}}, 0.03, 600),
        ("reward_weighted", {"optimiser": {"learning_rate": 1e-3, "batch_size": 16, "epochs": 1}}, 0.03, 300),
        # Stored texts teach a model this small little (docs/learning.md); it must not unlearn.
        ("grpo", {"online": {"prompts_per_step": 16, "group": 4}, "lora": {"r": 4}}, -0.1, 600),
    ],
    ids=["right and wrong", "rewarded", "stored groups, by an adapter"],
)
def test_what_was_tried_teaches_and_keeps_json_valid(
    tmp_path: Path, world: World, writer: Path, method: str, changes: dict[str, Any], gain: float, rows: int
) -> None:
    spec = {
        "method": method,
        "base": {"path": str(writer / "attempts/1/model")},
        "optimiser": {"learning_rate": 5e-4, "epochs": 1},
        "evaluate": {},
    }
    train, heldout = tried(world.stream[200:500]), known(world.heldout[:100])
    run = write_run(tmp_path / "run", OF_TEXT | spec | changes, train=train, heldout=heldout)
    assert engine(run) == 0
    result = read_result(run)
    before, after = result["scores"]["base"], result["scores"]["trained"]
    assert after["accuracy"] > before["accuracy"] + gain and after["valid_share"] > 0.9
    assert result["output"] == ("adapter" if "lora" in changes else "model") and result["rows"] == rows
    output = run / "attempts/1" / result["output"]
    assert not [path for path in output.rglob("*") if path.is_dir()]  # TRL's reference adapter is not saved


@pytest.mark.slow
def test_fresh_texts_are_valued_by_the_specs_reward(tmp_path: Path, world: World, writer: Path) -> None:
    spec = {
        "method": "grpo",
        "base": {"path": str(writer / "attempts/1/model")},
        "optimiser": {"learning_rate": 3e-4},
        "online": {"steps": 3, "prompts_per_step": 4, "group": 4},
        "reward": [{"name": "matches_answer"}, {"name": "valid_json", "weight": 0.5}],
    }
    run = write_run(tmp_path / "run", OF_TEXT | spec, train=texts(world.stream[:40]))
    assert engine(run) == 0
    last = [event["values"] for event in read_events(run) if event["kind"] == "metric"][-1]
    assert last["valid_share"] > 0.4 and 0.1 < last["reward"] <= 1.5 and last["kl"] >= 0
    assert last["frac_reward_zero_std"] < 1  # else the next could not fail
    spec |= {"sampling": {"top_k": 1}, "online": {**spec["online"], "steps": 1, "ranked": True}}  # type: ignore[dict-item]
    greedy = write_run(tmp_path / "greedy", OF_TEXT | spec, train=texts(world.stream[:40]))
    assert engine(greedy) == 0
    (last,) = [event["values"] for event in read_events(greedy) if event["kind"] == "metric"]
    assert last["frac_reward_zero_std"] == 1  # the texts of a prompt are all the likeliest one
    assert last["reward"] == 0.5  # and of equal rank


@pytest.mark.slow
def test_a_stopped_run_goes_on_from_its_checkpoint(
    tmp_path: Path, world: World, launch: Callable[..., subprocess.Popen[bytes]]
) -> None:
    spec = {
        "method": "sft",
        "base": {"path": str(world.base)},
        "lora": {"r": 4},
        "optimiser": {"learning_rate": 1e-3, "epochs": 6, "batch_size": 8},
    }
    run = write_run(tmp_path / "run", OF_TEXT | spec, train=texts(world.taught))
    process = launch(str(run))
    deadline = time.monotonic() + 120
    while not any(event["kind"] == "metric" for event in read_events(run)):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 75
    *_, left, stopped = read_events(run)
    assert (left["kind"], stopped["kind"], stopped["reason"]) == ("checkpoint", "stopped", "SIGTERM")
    assert left["step"] == stopped["step"] < 90 and not (run / "attempts/1/result.json").exists()

    assert engine(run) == 0
    events = read_events(run, 2)
    assert events[0]["resumed_from"] == f"1/checkpoints/checkpoint-{stopped['step']}"
    assert min(event["step"] for event in events if event["kind"] == "metric") > stopped["step"]
    assert read_result(run, 2)["steps"] == 90


@pytest.mark.slow
def test_suites_of_texts_are_answered_as_held_out_ones_and_only_where_they_are_right(
    tmp_path: Path, world: World, writer: Path
) -> None:
    right = known(world.heldout[:12])
    wrong = [row | {"id": f"wrong {row['id']}", "reward": 0.0} for row in texts(world.heldout[:12])]
    spec = {"method": "evaluate", "base": {"path": str(writer / "attempts/1/model")}, "max_completion_tokens": 2}
    data = {"heldout": "data/heldout.jsonl", "heldout_rows": "text", "text_suites": {"letters": "data/letters.jsonl"}}
    run = write_run(tmp_path / "run", spec | {"data": data}, heldout=right)
    (run / "data/letters.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*wrong, *right]))
    assert engine(run) == 0
    folder, told = run / "attempts/1", read_result(run)["suites"]["letters"]
    suite, heldout = (
        [json.loads(line) for line in (folder / name).read_text().splitlines()]
        for name in (told["predictions"], "predictions.jsonl")
    )
    assert [row["id"] for row in suite] == [row["id"] for row in heldout] == [row["id"] for row in right]
    # A suite has room for its texts, whatever the run allows.
    assert told["valid_share"] > 0.9 and told["free_rows"] == 12 and any(row["correct"] for row in suite)
    assert not any(row["valid"] for row in heldout)


PROMPTS = [{"prompt": "a", "answer": "travel", "id": "1"}, {"prompt": "b", "answer": "health", "id": "2"}]
UNSAID = texts(PROMPTS)  # type: ignore[arg-type]
ALL_RIGHT = [row | {"reward": 0.9} for row in UNSAID]


@pytest.mark.parametrize(
    ("method", "rows", "lack"),
    [
        ("kto", UNSAID, Need.RIGHT_AND_WRONG),
        ("kto", ALL_RIGHT, Need.RIGHT_AND_WRONG),
        ("grpo", UNSAID, Need.REWARDED_GROUPS),
        ("grpo", ALL_RIGHT, Need.REWARDED_GROUPS),
        ("sft", [row | {"right": 0.0} for row in UNSAID], Need.RIGHT_TEXTS),
    ],
    ids=["kto without rewards", "kto of one class", "grpo without rewards", "grpo without groups", "sft, all wrong"],
)
def test_what_the_texts_lack_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str, rows: list[dict[str, Any]], lack: Need
) -> None:
    run = write_run(tmp_path / "run", OF_TEXT | {"method": method} | NOWHERE, train=rows)
    assert engine(run) == 2
    assert WHAT_LACKS[lack] in capsys.readouterr().err
    assert not (run / "attempts").exists()


def test_without_trl_a_run_of_text_is_refused_and_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "trl", None)  # as if it were not there
    run = write_run(tmp_path / "run", OF_TEXT | {"method": "sft"} | NOWHERE, train=UNSAID)
    assert engine(run) == 2
    assert "make text" in capsys.readouterr().err and not (run / "attempts").exists()


def test_held_out_rows_of_another_kind_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = {"method": "sft", "evaluate": {}, "data": {"rows": "text", "heldout_rows": "preferences"}}
    run = write_run(tmp_path / "run", NOWHERE | spec, train=UNSAID, heldout=UNSAID)
    assert engine(run) == 2
    assert "data.heldout_rows" in capsys.readouterr().err
