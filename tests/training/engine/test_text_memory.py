"""Runs of texts in little memory, the weights of each of their epochs, and that they repeat."""

from __future__ import annotations

import io
import json
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_world import OPTIONS, World, engine, read_events, read_result, write_run
from peft import PeftModel
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from training.engine.models.loading import load_model, weights_sha256
from training.engine.text.parts import find_sizes

OF_TEXT = {"max_completion_tokens": 12, "data": {"rows": "text"}}
REWARD = [{"name": "rule.has_e", "rule": {"text": '1 if "e" in action else 0', "low": 0, "high": 1}}]


def tried(world: World, count: int) -> list[dict[str, Any]]:
    """Two answers to each prompt, the right one and another."""
    return [
        {"id": f"{row['id']}/{n}", "prompt": row["prompt"], "completion": name, "reward": float(n == 0)}
        for row in world.stream[:count]
        for n, name in enumerate((row["answer"], next(name for name in OPTIONS if name != row["answer"])))
    ]


def lay_out(folder: Path, world: World, method: str, *, batch: int = 8, accumulate: int = 1, **spec: Any) -> Path:
    """Sixteen texts to learn from. A batch of GRPO is of prompts with two texts each."""
    optimiser = {"learning_rate": 1e-3, "epochs": 1, "batch_size": batch, "accumulate": accumulate}
    full: dict[str, Any] = {"method": method, "base": {"path": str(world.base)}} | OF_TEXT | spec
    full["optimiser"] = optimiser | spec.get("optimiser", {})
    rows = tried(world, 8)
    if method == "grpo":
        full["online"] = {"prompts_per_step": batch // 2, "group": 2, "steps": 2}
    if method == "sft":
        rows = [row for row in tried(world, 16) if row["reward"]]
    return write_run(folder, full, train=rows)


@contextmanager
def room_for(rows: int, *, gradients: bool = True, forwards: int = 0, on_cpu: bool = False) -> Iterator[None]:
    """As if memory held so many rows and no more once so many forwards were done, with their gradients or without, and
    no second model beside that which filled it."""
    forward, seen = nn.Embedding.forward, [0]
    too_large: list[weakref.ref[nn.Embedding]] = []

    def in_little_memory(self: nn.Embedding, ids: Tensor) -> Tensor:
        if torch.is_grad_enabled() is gradients:
            seen[0] += 1
            assert all(one() in (None, self) for one in too_large)
            if len(ids) > rows and seen[0] > forwards:
                too_large.append(weakref.ref(self))
                if on_cpu:
                    raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes.")
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return forward(self, ids)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Embedding, "forward", in_little_memory)
        yield


def test_parts_halve_in_sizes_that_make_the_same_update() -> None:
    assert find_sizes(64) == [64, 32, 16, 8, 4, 2, 1] and find_sizes(50) == [50, 25, 10, 5, 2, 1]
    assert find_sizes(7) == [7, 1] and find_sizes(1) == [1]
    assert find_sizes(64, least=2)[-1] == 2 and find_sizes(2, least=2) == [2]
    assert find_sizes(24, group=8) == [24, 8, 4, 2, 1] and find_sizes(12, group=6) == [12, 6, 3, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "spec"),
    [("sft", {}), ("kto", {"lora": {"r": 2, "dropout": 0.1}}), ("grpo", {}), ("grpo", {"reward": REWARD})],
    ids=["sft", "kto, an adapter", "grpo of stored texts", "grpo of fresh texts"],
)
def test_out_of_memory_begins_again_with_half_the_batch_and_learns_the_same(
    method: str, spec: dict[str, Any], world: World, tmp_path: Path
) -> None:
    few = lay_out(tmp_path / "few", world, method, batch=4, accumulate=2, **spec)
    full = lay_out(tmp_path / "full", world, method, **spec)
    assert engine(few) == 0
    with room_for(4):
        assert engine(full) == 0
    result = read_result(full)
    assert result["weights_sha256"] == read_result(few)["weights_sha256"]
    assert result["steps"] == 2 and result["metrics"]["grad_norm"] > 0
    (warning,) = result["warnings"]
    assert warning.startswith("out of memory with 8 rows at once: the training begins again with 4 at once")
    assert [event["message"] for event in read_events(full) if event["kind"] == "warning"] == [warning]


@pytest.mark.slow
@pytest.mark.parametrize(("accumulate", "error"), [(4, ""), (9, "8 prompts are too few")])
def test_stored_texts_of_few_prompts_make_an_update_of_all(
    accumulate: int, error: str, world: World, tmp_path: Path
) -> None:
    run = lay_out(tmp_path / "run", world, "grpo", accumulate=accumulate)
    assert engine(run) == (1 if error else 0)
    assert error in read_events(run)[-1]["error"] if error else read_result(run)["steps"] == 1


@pytest.mark.slow
def test_out_of_memory_goes_on_from_the_newest_checkpoint(world: World, tmp_path: Path) -> None:
    often = {"checkpoint_every_seconds": 1e-3, "epoch_checkpoints": True, "optimiser": {"epochs": 3}}
    run = lay_out(tmp_path / "run", world, "sft", **often)
    with room_for(2, forwards=3, on_cpu=True):  # the memory is full in the fourth step
        assert engine(run) == 0
    events, result = read_events(run), read_result(run)
    first, second = (event for event in events if event["kind"] == "warning")
    left = [event["step"] for event in events if event["kind"] == "checkpoint" and event["seq"] < first["seq"]]
    assert f"with 8 rows at once: the training continues after step {left[-1]} with 4 at once" in first["message"]
    assert f"with 4 rows at once: the training continues after step {left[-1]} with 2 at once" in second["message"]
    assert 0 < left[-1] <= 3 and result["steps"] == 6
    told = [event["step"] for event in events if event["kind"] == "metric" and event["seq"] > second["seq"]]
    assert left[-1] < min(told) and max(told) == 6
    epochs = [weights_sha256(run / f"attempts/1/checkpoint-epoch-{epoch}") for epoch in (1, 2, 3)]
    assert len(set(epochs)) == 3 and epochs[-1] == result["weights_sha256"]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "least"), [("sft", 1), ("kto", 2), ("grpo", 1)])
def test_where_the_fewest_rows_are_too_many_the_run_fails_and_says_why(
    method: str, least: int, world: World, tmp_path: Path
) -> None:
    run = lay_out(tmp_path / "run", world, method, batch=4)
    with room_for(0):
        assert engine(run) == 1
    rows = "2 rows" if least == 2 else "1 row"
    assert f"out of memory with {rows} at once, and method {method} cannot" in read_events(run)[-1]["error"]
    warnings = [event["message"] for event in read_events(run) if event["kind"] == "warning"]
    assert len(warnings) == (1 if method == "kto" else 2)
    assert not (run / "attempts/1/result.json").exists() and not list(run.glob("attempts/1/model"))


def test_out_of_memory_in_writing_answers_halves_their_batch_and_writes_the_same(world: World, tmp_path: Path) -> None:
    spec = {"method": "evaluate", "base": {"path": str(world.base)}, "evaluate": {"batch_size": 16}}
    heldout = [row for row in tried(world, 12) if row["reward"]]
    runs = [
        write_run(tmp_path / name, OF_TEXT | spec | {"data": {"heldout_rows": "text"}}, heldout=heldout)
        for name in ("much", "little")
    ]
    assert engine(runs[0]) == 0
    with room_for(3, gradients=False):
        assert engine(runs[1]) == 0
    assert read_result(runs[1])["warnings"] == [
        "out of memory with 12 rows scored at once: 6 at once for the rest",
        "out of memory with 6 rows scored at once: 3 at once for the rest",
    ]
    much, little = ((run / "attempts/1/predictions.jsonl").read_text().splitlines() for run in runs)
    for one, other in zip(map(json.loads, much), map(json.loads, little), strict=True):
        assert one["action"] == other["action"] and one["log_p"] == pytest.approx(other["log_p"], abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "spec"),
    [("sft", {}), ("kto", {"lora": {"r": 2}}), ("grpo", {"lora": {"r": 2}}), ("reward_weighted", {"lora": None})],
)
def test_a_run_of_text_repeats_to_the_same_weights_and_keeps_those_of_each_epoch(
    method: str, spec: dict[str, Any], world: World, tmp_path: Path
) -> None:
    asked = {"epoch_checkpoints": True, "optimiser": {"epochs": 2}}
    runs = [lay_out(tmp_path / name, world, method, **spec, **asked) for name in ("once", "again")]
    assert [engine(run) for run in runs] == [0, 0]
    once, again = (read_result(run)["weights_sha256"] for run in runs)
    assert once == again
    attempt = runs[0] / "attempts/1"
    folders = [attempt / f"checkpoint-epoch-{epoch}" for epoch in (1, 2)]
    assert sorted(attempt.glob("checkpoint-epoch*")) == folders
    hashes = [weights_sha256(folder) for folder in folders]
    assert hashes[0] != hashes[1] == once
    assert not [path for folder in folders for path in folder.iterdir() if path.is_dir()]  # TRL's reference is not kept
    if spec.get("lora"):
        loaded = PeftModel.from_pretrained(load_model(world.base, torch.device("cpu")), folders[0])
    else:
        loaded = AutoModelForCausalLM.from_pretrained(folders[0])
    tokenizer = AutoTokenizer.from_pretrained(folders[0])
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "an invoice"}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    written = loaded.generate(**chat, max_new_tokens=4, do_sample=False)
    assert tokenizer.decode(written[0, chat["input_ids"].shape[1] :])


def test_fresh_texts_have_no_epochs_to_keep(world: World, tmp_path: Path) -> None:
    run = lay_out(tmp_path / "run", world, "grpo", epoch_checkpoints=True, reward=REWARD)
    told = io.StringIO()
    with redirect_stderr(told):
        assert engine(run) == 2
    assert "epoch_checkpoints: method grpo on fresh texts has steps instead of epochs" in told.getvalue()
    assert not (run / "attempts").exists()


@pytest.mark.slow
def test_on_processors_the_output_layer_reads_the_replies_alone(
    monkeypatch: pytest.MonkeyPatch, world: World, tmp_path: Path
) -> None:
    utils = pytest.importorskip("trl.trainer.utils")
    apply, read = utils._ChunkedLogProbFunction.apply, []

    def count(hidden: Tensor, *more: Any) -> Any:
        read.append(len(hidden))
        return apply(hidden, *more)

    monkeypatch.setattr(utils._ChunkedLogProbFunction, "apply", count)
    for method in ("sft", "kto"):
        read.clear()
        assert engine(lay_out(tmp_path / method, world, method)) == 0
        assert read and max(read) <= 8 * 12  # of a batch, the longest completions
