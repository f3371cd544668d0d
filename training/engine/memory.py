"""Less memory for the same work: smaller batches where it ran out, activations calculated again where they are needed,
frozen weights in 4 bits."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import BitsAndBytesConfig
from transformers.modeling_layers import GradientCheckpointingLayer

from training.engine.actions import causal_of
from training.engine.attempt import Attempt

FULL = "can't allocate memory"
"""What torch's allocator says on the CPU, as a plain RuntimeError."""


def is_out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or FULL in str(error)


class BeginAgain(Exception):
    """Memory ran out in a training that cannot make its parts smaller while it works: it is to begin again."""

    def __init__(self, before: int, fewer: int) -> None:
        super().__init__(f"out of memory with {before} rows at once; {fewer} may fit")
        self.before = before
        self.fewer = fewer


def free_memory() -> None:
    """Gives back what nothing refers to any more. Call it when the error is gone: its traceback holds the tensors that
    filled the memory."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def score_in_batches(
    attempt: Attempt, lengths: Sequence[int], batch_size: int, score: Callable[[list[int]], None]
) -> None:
    """Calls `score` with every row number once, in batches of rows of similar length, the short ones first.

    When the memory runs out, the batch begins again with half as many rows, and so do those after it. Raises Stopped
    between batches when asked to stop, and torch.OutOfMemoryError where one row alone is too much.
    """
    left = sorted(range(len(lengths)), key=lambda row: lengths[row])
    while left:
        attempt.stop.check()
        batch = left[:batch_size]
        try:
            score(batch)
        except RuntimeError as error:  # torch.OutOfMemoryError is one
            if not is_out_of_memory(error) or len(batch) == 1:
                raise
        else:
            left = left[len(batch) :]
            continue
        batch_size = len(batch) // 2
        free_memory()
        attempt.events.warn(f"out of memory with {len(batch)} rows scored at once: {batch_size} at once for the rest")


def recompute_activations(model: nn.Module) -> None:
    """Gradient checkpointing (Chen et al. 2016): each layer keeps its input alone and is calculated again for its
    gradients, with the same random draws, so the gradients are the same.

    transformers' own does nothing in evaluation mode, in which methods without dropout train what acts.
    """
    for module in causal_of(model).modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.forward = partial(checkpoint, module.forward, use_reentrant=False)


def four_bits() -> BitsAndBytesConfig:
    """Frozen weights as 4-bit normal floats, their scales in 8 bits, products in bfloat16 (QLoRA, Dettmers et al.
    2023). The output layer keeps its precision, since options are scored by its rows."""
    return BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
