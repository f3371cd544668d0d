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
from engine_world import World, engine, logged, read_result, write_run
from peft import PeftModel
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from training.engine.actions import ActionScorer
from training.engine.memory import recompute_activations
from training.engine.models import load_model, load_tokenizer, weights_sha256
from training.hardware import Machine, this_machine, why_no_quantisation

ONLINE = {"steps": 1, "prompts_per_step": 16, "group": 4, "inner_epochs": 1}
REWARD = [{"name": "matches_answer"}]


def lay_out(folder: Path, world: World, method: str, **spec: Any) -> Path:
    """A run over 16 rows with full options, in one epoch unless said otherwise."""
    optimiser = {"learning_rate": 1e-3, "epochs": 1, "batch_size": 16} | spec.pop("optimiser", {})
    full: dict[str, Any] = {"method": method, "base": {"path": str(world.base)}, "optimiser": optimiser} | spec
    rows: Sequence[dict[str, Any]] = world.stream[:16]
    if method in ("posterior", "reward_weighted"):
        log = logged(world.stream[:60], world.probabilities[:60], 1)
        rows = [row for row in log if row["reward"]][:16]
    if method in ("grpo", "ppo"):
        full |= {"online": ONLINE, "reward": REWARD, "text_weight": 0}
    if method == "pretrain":
        full |= {"pretrain": {"calibration_share": 0}}
    return write_run(folder, full, train=list(rows))


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
        ({"method": "grpo", "epoch_checkpoints": True, "reward": REWARD}, "has steps and no epochs"),
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
