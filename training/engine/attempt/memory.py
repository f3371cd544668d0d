"""Smaller batches where memory ran out."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

import torch

from training.engine.attempt.attempt import Attempt

FULL = ("can't allocate memory", "MPS backend out of memory")
"""What torch's allocators say on the CPU and on Apple's GPUs, as a plain RuntimeError."""


def is_out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or any(said in str(error) for said in FULL)


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
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()


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
            attempt.events.repeat_progress()
            continue
        batch_size = len(batch) // 2
        free_memory()
        attempt.events.warn(f"out of memory with {len(batch)} rows scored at once: {batch_size} at once for the rest")
