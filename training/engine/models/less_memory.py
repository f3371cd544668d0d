"""Models in less memory: activations calculated again where they are needed, frozen weights in 4 bits."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import BitsAndBytesConfig
from transformers.modeling_layers import GradientCheckpointingLayer

from training.engine.models.actions import causal_of


def recompute_activations(model: nn.Module) -> None:
    """Gradient checkpointing (Chen et al. 2016): each layer keeps its input alone and is calculated again for its
    gradients, with the same random draws, so the gradients are the same.

    transformers' own does nothing in evaluation mode, in which methods without dropout train what acts.
    """
    for module in causal_of(model).modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.forward = partial(checkpoint, module.forward, use_reentrant=False)


def four_bits(precision: torch.dtype) -> BitsAndBytesConfig:
    """Frozen weights as 4-bit normal floats, their scales in 8 bits, products in `precision` (QLoRA, Dettmers et al.
    2023). The output layer keeps its precision, since options are scored by its rows."""
    return BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=precision,
    )
