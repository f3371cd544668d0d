"""What a run does about memory changes what it needs, and not what it learns."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_world import World, engine, logged, read_events, read_result, write_run
from peft import PeftModel
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from training.engine.machine.facts import Machine, this_machine, why_no_quantisation
from training.engine.models.actions import ActionScorer
from training.engine.models.less_memory import recompute_activations
from training.engine.models.loading import load_model, load_tokenizer, weights_sha256
from training.engine.updates.fit import Updates

ONLINE = {"steps": 1, "prompts_per_step": 16, "group": 4, "inner_epochs": 1}
REWARD = [{"name": "matches_answer"}]


def lay_out(folder: Path, world: World, method: str, **spec: Any) -> Path:
    """A run over 16 rows with full options, in one epoch unless said otherwise."""
    optimiser = {"learning_rate": 1e-3, "epochs": 1, "batch_size": 16} | spec.pop("optimiser", {})
    full: dict[str, Any] = {"method": method, "base": {"path": str(world.base)}, "optimiser": optimiser} | spec
    rows: Sequence[dict[str, Any]] = world.stream[:16]
    if method in ("posterior", "reward_weighted", "all_action"):
        log = logged(world.stream[:60], world.probabilities[:60], 1)
        rows = [row for row in log if row["reward"]][:16]
    if method in ("grpo", "ppo"):
        full |= {"online": ONLINE, "reward": REWARD}
    if method == "pretrain":
        full |= {"pretrain": {"calibration_share": 0}}
    return write_run(folder, full, train=list(rows))


@pytest.mark.parametrize("method", ["pretrain", "posterior", "reward_weighted", "all_action", "grpo", "ppo"])
def test_accumulated_gradients_are_those_of_the_big_batch(
    method: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[Tensor]] = []
    step = Updates.step

    def record(updates: Updates) -> None:
        seen.append([p.grad.clone() for p in updates.parameters.values() if p.grad is not None])
        step(updates)

    monkeypatch.setattr(Updates, "step", record)
    # The answers that keep free generation valid weigh by token inside a part only, but where they are what is learnt.
    spec = {} if method == "pretrain" else {"text_weight": 0}
    for name, batch in (("whole", {"batch_size": 16}), ("parts", {"batch_size": 3, "accumulate": 6})):
        assert engine(lay_out(tmp_path / name, world, method, optimiser=batch, **spec)) == 0
    whole, parts = seen
    assert len(whole) == len(parts) > 10
    for one, other in zip(whole, parts, strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-6)
    metrics = [read_result(tmp_path / name)["metrics"] for name in ("whole", "parts")]
    for told in metrics:
        told.pop("text_loss", None)
    assert metrics[0] == pytest.approx(metrics[1], rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("method", ["posterior", "grpo"])
def test_out_of_memory_halves_the_batch_and_learns_the_same(
    method: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the device had room for four rows with their gradients."""
    spec: dict[str, Any] = {"lora": {"r": 2, "dropout": 0.1}} if method == "posterior" else {}
    few = lay_out(tmp_path / "few", world, method, optimiser={"batch_size": 4, "accumulate": 2}, **spec)
    full = lay_out(tmp_path / "full", world, method, optimiser={"batch_size": 8}, **spec)
    assert engine(few) == 0
    states = ActionScorer.states

    def in_little_memory(self: ActionScorer, model: Any, prompt_ids: Any, *others: Any) -> Tensor:
        if torch.is_grad_enabled() and len(prompt_ids) > room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return states(self, model, prompt_ids, *others)

    room = 4
    monkeypatch.setattr(ActionScorer, "states", in_little_memory)
    assert engine(full) == 0
    result = read_result(full)
    assert result["weights_sha256"] == read_result(few)["weights_sha256"]
    (warning,) = result["warnings"]
    assert "out of memory with 8 rows at once: from here on 4 at once" in warning
    assert [event["message"] for event in read_events(full) if event["kind"] == "warning"] == [warning]
    room = 0
    none = lay_out(tmp_path / "none", world, method, optimiser={"batch_size": 2}, **spec)
    assert engine(none) == 1
    assert "out of memory" in read_events(none)[-1]["error"] and not (none / "attempts/1/result.json").exists()


def test_out_of_memory_in_scoring_halves_its_batch_and_scores_the_same(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"method": "evaluate", "base": {"path": str(world.base)}, "evaluate": {"free_rows": 0, "batch_size": 16}}
    runs = [write_run(tmp_path / name, spec, heldout=world.heldout[:20]) for name in ("much", "little", "none")]
    assert engine(runs[0]) == 0
    states = ActionScorer.states

    def in_little_memory(self: ActionScorer, model: Any, prompt_ids: Any, *others: Any) -> Tensor:
        if len(prompt_ids) > room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return states(self, model, prompt_ids, *others)

    room = 5
    monkeypatch.setattr(ActionScorer, "states", in_little_memory)
    assert engine(runs[1]) == 0
    assert read_result(runs[1])["warnings"] == [
        "out of memory with 16 rows scored at once: 8 at once for the rest",
        "out of memory with 8 rows scored at once: 4 at once for the rest",
    ]
    much, little = ((run / "attempts/1/predictions.jsonl").read_text().splitlines() for run in runs[:2])
    for one, other in zip(map(json.loads, much), map(json.loads, little), strict=True):
        assert one["id"] == other["id"] and one["p"] == pytest.approx(other["p"], abs=1e-5)
    room = 0
    assert engine(runs[2]) == 1
    assert "out of memory" in read_events(runs[2])[-1]["error"] and not (runs[2] / "attempts/1/result.json").exists()


def test_a_run_repeats_to_the_same_weights_and_so_with_recomputed_activations(world: World, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"lora": {"r": 2, "dropout": 0.1}, "optimiser": {"batch_size": 8, "token_dropout": 0.1}}
    for method, given in (("posterior", settings), ("grpo", {})):
        hashes = set()
        for name, changes in (("once", {}), ("again", {}), ("less", {"gradient_checkpointing": True})):
            run = lay_out(tmp_path / f"{method}-{name}", world, method, **given, **changes)
            assert engine(run) == 0
            hashes.add(read_result(run)["weights_sha256"])
        assert len(hashes) == 1


def test_recomputed_activations_take_less_memory(world: World) -> None:
    scorer = ActionScorer(load_tokenizer(world.base), 32)
    prompts = scorer.encode([row["prompt"] for row in world.stream[:8]])
    options = [row["options"] for row in world.stream[:8]]

    def kept(model: nn.Module) -> int:
        """Bytes that a forward keeps for its gradients, without the weights."""
        weights = {parameter.data_ptr() for parameter in model.parameters()}
        sizes: list[int] = []

        def note(tensor: Tensor) -> Tensor:
            if tensor.data_ptr() not in weights:
                sizes.append(tensor.numel() * tensor.element_size())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            scorer.log_probabilities(model, prompts, options)
        return sum(sizes)

    model = load_model(world.base, torch.device("cpu"), torch.float32).requires_grad_(True)
    usual = kept(model)
    recompute_activations(model)
    assert kept(model) < 0.4 * usual


@pytest.mark.parametrize("lora", [None, {"r": 2}])
def test_weights_of_each_epoch_are_kept_where_asked(lora: dict[str, Any] | None, world: World, tmp_path: Path) -> None:
    asked = {"epoch_checkpoints": True, "lora": lora, "optimiser": {"epochs": 3, "batch_size": 8}}
    run = lay_out(tmp_path / "run", world, "posterior", **asked)
    assert engine(run) == 0
    attempt = run / "attempts/1"
    assert sorted(path.name for path in attempt.glob("checkpoint*")) == [
        "checkpoint-epoch-1",
        "checkpoint-epoch-2",
        "checkpoint-epoch-3",
        "checkpoints",
    ]
    hashes = [weights_sha256(attempt / f"checkpoint-epoch-{epoch}") for epoch in (1, 2, 3)]
    assert len(set(hashes)) == 3 and hashes[-1] == read_result(run)["weights_sha256"]
    first = attempt / "checkpoint-epoch-1"
    if lora is None:
        loaded = AutoModelForCausalLM.from_pretrained(first)
    else:
        loaded = PeftModel.from_pretrained(load_model(world.base, torch.device("cpu")), first)
    ids = load_tokenizer(first)(["an invoice"], return_tensors="pt")["input_ids"]
    assert loaded(input_ids=ids).logits.isfinite().all()


@pytest.mark.skipif(not why_no_quantisation(this_machine()), reason="this machine has CUDA and bitsandbytes")
def test_four_bits_are_refused_without_cuda_before_anything_is_written(world: World, tmp_path: Path) -> None:
    assert why_no_quantisation(Machine("a CPU", 2, 2, 10**10)).startswith("4bit needs a CUDA GPU")
    run = lay_out(tmp_path / "run", world, "posterior", lora={}, quantisation="4bit")
    told = io.StringIO()
    with redirect_stderr(told):
        assert engine(run) == 2
    assert json.loads(told.getvalue())["faults"][0].startswith("quantisation: 4bit needs")
    assert not (run / "attempts").exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"quantisation": "4bit"}, "only weights under an adapter"),
        ({"method": "grpo", "epoch_checkpoints": True, "reward": REWARD}, "has steps instead of epochs"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict[str, Any], says: str, world: World, tmp_path: Path) -> None:
    run = lay_out(tmp_path / "run", world, "posterior")
    spec = json.loads((run / "spec.json").read_text())
    (run / "spec.json").write_text(json.dumps(spec | changes))
    told = io.StringIO()
    with redirect_stderr(told):
        assert engine(run) == 2
    assert says in told.getvalue() and not (run / "attempts").exists()
