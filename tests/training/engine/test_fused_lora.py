"""The fused LoRA layers, which train on CUDA, held against peft's own on the CPU."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_world import labelled
from peft import LoraConfig, get_peft_model

from training.engine.actions import ActionScorer
from training.engine.fit import Updates
from training.engine.fused import fuse
from training.engine.models import load_model, load_tokenizer, trainable_parameters
from training.engine.settings import Optimiser

CPU = torch.device("cpu")
ROWS = labelled(5, 3)


def adapted(folder: Path, dtype: torch.dtype = torch.float32, dropout: float = 0.0) -> Any:
    torch.manual_seed(5)
    config = LoraConfig(
        r=3,
        lora_alpha=5,
        lora_dropout=dropout,
        target_modules="all-linear",
        init_lora_weights=False,
        task_type="CAUSAL_LM",
    )
    return get_peft_model(load_model(folder, CPU, dtype), config)


def log_p(model: Any, folder: Path) -> torch.Tensor:
    scorer = ActionScorer(load_tokenizer(folder), 32)
    ids = scorer.encode([row["prompt"] for row in ROWS])
    return scorer.log_probabilities(model, ids, [row["options"] for row in ROWS])


@pytest.fixture
def both(base_folder: Path) -> tuple[Any, Any]:
    plain = adapted(base_folder)
    fused = copy.deepcopy(plain)
    assert fuse(fused) == 2 * 7  # two layers of seven matrices
    return plain, fused


def test_it_learns_what_peft_learns(both: tuple[Any, Any], base_folder: Path) -> None:
    """Over several updates: copies of A and B that were not made anew would be noticed at the second."""
    found = []
    for model in both:
        updates = Updates(trainable_parameters(model), Optimiser(learning_rate=1e-2), 3)
        for _ in range(3):
            said = log_p(model, base_folder)
            text = log_p(model, base_folder)  # a second forward before the update, as every method makes
            updates.apply(-said[:, 0].mean() - 0.3 * text[:, 1].mean())
        found.append((said, updates.norm, [*updates.parameters.values()]))
    (said, norm, weights), (other_said, other_norm, other_weights) = found
    assert torch.allclose(said, other_said, atol=1e-4)
    assert torch.allclose(norm, other_norm, rtol=1e-3)
    for one, other in zip(weights, other_weights, strict=True):
        assert torch.allclose(one, other, atol=1e-3)


def test_in_bfloat16_it_is_as_near_to_float32_as_peft(base_folder: Path) -> None:
    def gradient(model: Any) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=model.dtype is torch.bfloat16):
            said = log_p(model, base_folder)
        (-said[:, 0].mean()).backward()
        return torch.cat([one.grad.flatten() for one in trainable_parameters(model).values()])

    plain = adapted(base_folder, torch.bfloat16)
    fused = copy.deepcopy(plain)
    fuse(fused)
    wanted = gradient(copy.deepcopy(plain).float())
    errors = [float((gradient(model) - wanted).norm() / wanted.norm()) for model in (plain, fused)]
    assert errors[1] < 1.2 * errors[0] + 1e-3
    assert errors[1] > 1e-5  # it did multiply in bfloat16


@torch.no_grad()
def test_the_adapter_stays_that_of_peft(both: tuple[Any, Any], base_folder: Path, tmp_path: Path) -> None:
    plain, fused = both
    assert plain.state_dict().keys() == fused.state_dict().keys()
    with plain.disable_adapter(), fused.disable_adapter():
        assert torch.allclose(log_p(plain, base_folder), log_p(fused, base_folder), atol=1e-5)
    fused.save_pretrained(tmp_path)
    opened = get_peft_model(load_model(base_folder, CPU, torch.float32), plain.peft_config["default"])
    opened.load_adapter(tmp_path, "default")
    assert torch.allclose(log_p(opened, base_folder), log_p(plain, base_folder), atol=1e-5)


def test_what_is_not_plain_is_left_alone(base_folder: Path) -> None:
    assert fuse(adapted(base_folder, dropout=0.1)) == 0
    assert fuse(load_model(base_folder, CPU, torch.float32)) == 0
