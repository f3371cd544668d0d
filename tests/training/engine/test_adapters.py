"""Adapters side by side in one batch, held against peft's own way of mixing them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from engine_world import labelled
from peft import LoraConfig, get_peft_model

from training.engine.models.actions import ActionScorer
from training.engine.models.adapters import BASE, adapters_by_row
from training.engine.models.loading import load_model, load_tokenizer

CPU = torch.device("cpu")
NAMES = ["small", BASE, "wide", "attention", "small", BASE]


@pytest.fixture
def model(base_folder: Path):
    """Three adapters of different ranks, scales and layers."""
    torch.manual_seed(5)

    def config(rank: int, alpha: int, targets: str | list[str]) -> LoraConfig:
        return LoraConfig(
            r=rank, lora_alpha=alpha, target_modules=targets, init_lora_weights=False, task_type="CAUSAL_LM"
        )

    adapted = get_peft_model(load_model(base_folder, CPU), config(2, 8, "all-linear"), adapter_name="small")
    adapted.add_adapter("wide", config(7, 7, "all-linear"))
    adapted.add_adapter("attention", config(3, 9, ["q_proj", "v_proj"]))
    return adapted.eval()


@pytest.fixture
def ids(base_folder: Path):
    tokenizer = load_tokenizer(base_folder)
    encoded = ActionScorer(tokenizer, 32).encode([row["prompt"] for row in labelled(len(NAMES), 9)])
    return tokenizer.pad({"input_ids": encoded}, return_tensors="pt")


@torch.no_grad()
def test_each_row_meets_its_own_adapter(model, ids) -> None:
    wanted = model(**ids, adapter_names=NAMES).logits
    assert not torch.allclose(wanted[0], wanted[4])  # other prompts
    with adapters_by_row(model, NAMES):
        assert torch.allclose(model.get_base_model()(**ids).logits, wanted, atol=1e-4)
    base = model(**ids, adapter_names=[BASE] * len(NAMES)).logits
    with adapters_by_row(model, [BASE] * len(NAMES)):
        assert torch.equal(model.get_base_model()(**ids).logits, base)
    assert (wanted[[0, 2, 3, 4]] - base[[0, 2, 3, 4]]).abs().amax((1, 2)).min() > 1e-2


@torch.no_grad()
def test_outside_of_it_the_model_is_what_it_was(model, ids) -> None:
    before = model(**ids).logits
    with pytest.raises(KeyError), adapters_by_row(model, ["nobody"]):
        pass
    with pytest.raises(ZeroDivisionError), adapters_by_row(model, NAMES):
        raise ZeroDivisionError
    assert torch.equal(model(**ids).logits, before)


@torch.no_grad()
def test_an_adapter_that_comes_or_goes_is_noticed(model, ids) -> None:
    with adapters_by_row(model, NAMES):
        model.get_base_model()(**ids)
    model.delete_adapter("wide")
    model.add_adapter("late", LoraConfig(r=4, target_modules=["o_proj"], init_lora_weights=False))
    names = ["late", "attention", "late", BASE, "small", BASE]
    wanted = model(**ids, adapter_names=names).logits
    with adapters_by_row(model, names):
        assert torch.allclose(model.get_base_model()(**ids).logits, wanted, atol=1e-4)
