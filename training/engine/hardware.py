"""Chooses the device, the number of CPU threads and the precision. Called once at start by engine and model server.

As a program, `python -m training.engine.hardware`, it calculates on the device and prints what came of it as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os

import torch


def choose_device() -> torch.device:
    """CUDA if there is one, else Apple's MPS, else the CPU. `RECKONER_DEVICE` overrides it."""
    named = os.environ.get("RECKONER_DEVICE")
    if named:
        return torch.device(named)
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def set_threads(threads: int | None) -> int:
    """Sets torch's CPU threads to `threads`, or to every core, and returns the number.

    Sums are split by thread, so the last bits of a result depend on this number: a resumed run wants the
    same one.
    """
    chosen = threads or os.cpu_count() or 1
    torch.set_num_threads(chosen)
    return chosen


def make_deterministic(seed: int, device: torch.device) -> None:
    """Seeds torch and, on the CPU, refuses operations whose result depends on timing."""
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(device.type == "cpu")


def frozen_dtype(device: torch.device) -> torch.dtype:
    """Precision of weights that no optimiser touches: bfloat16 on CUDA, float32 elsewhere."""
    if device.type == "cuda" and torch.cuda.is_bf16_supported():
        return torch.bfloat16
    return torch.float32


def autocast(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Runs matrix products in bfloat16 over float32 weights on CUDA; does nothing elsewhere."""
    if device.type == "cuda" and torch.cuda.is_bf16_supported():
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return contextlib.nullcontext()


def try_device() -> dict[str, object]:
    """`torch` (its version), `device`, and `error`: why a product of matrices could not be calculated there, or ""."""
    device = torch.device("cpu")
    try:
        device = choose_device()
        with autocast(device):
            product = torch.ones(64, 64, device=device) @ torch.ones(64, 64, device=device)
        error = "" if float(product.float().mean()) == 64.0 else "it calculates wrongly"
    except (RuntimeError, AssertionError) as failure:  # a build without CUDA asserts
        error = str(failure).splitlines()[0]
    return {"torch": torch.__version__, "device": str(device), "error": error}


if __name__ == "__main__":
    print(json.dumps(try_device()))  # noqa: T201 - what was asked for
