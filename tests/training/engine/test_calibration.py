"""A temperature goes into the weights of every kind of model, and every logit follows it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from families import FAMILIES, make_model
from transformers import AutoModelForCausalLM

from training.engine.scoring.calibration import scale_logits

TOKENS = torch.randint(0, 50, (2, 9), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "olmo tied"])
def test_every_logit_is_divided_by_the_temperature(family: str, tmp_path: Path) -> None:
    """RMSNorm, 1 + w (Gemma), LayerNorm with a bias (GPT-2), a bias of the output layer (Phi), a soft cap (Gemma 2),
    and a norm without weights before an output layer of its own (OLMo)."""
    model = make_model(family, 50)
    before = model(TOKENS).logits
    assert scale_logits(model, 1 / 2.5)
    assert torch.allclose(model(TOKENS).logits, before / 2.5, rtol=1e-4, atol=1e-5)
    model.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert torch.allclose(again(TOKENS).logits, before / 2.5, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_model_without_a_place_for_it_stays_as_it_is() -> None:
    model = make_model("olmo tied", 50)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert not scale_logits(model, 0.5)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
