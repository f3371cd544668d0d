"""Chooses the device, the number of CPU threads and the precision. Called once at start by engine and model server.

As a program, `python -m training.engine.machine.hardware`, it calculates on the device and prints what came of it as
JSON.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os

import torch

from training.engine.machine.facts import apple_has_bfloat16
from training.engine.spec.architectures import holds_in_float16
from training.engine.spec.settings import Precision

LARGE = 512
"""Hidden dimensions from which on bfloat16 pays on a CPU that has it."""


def choose_device() -> torch.device:
    """CUDA if there is one, else Apple's MPS, else the CPU. `RECKONER_DEVICE` overrides it.

    Of several processes that were launched together (training.engine.machine.processes) each gets a CUDA device of its
    own.
    """
    named = os.environ.get("RECKONER_DEVICE")
    if named:
        return torch.device(named)
    if torch.cuda.is_available():
        if (place := os.environ.get("LOCAL_RANK")) is None:
            return torch.device("cuda")
        torch.cuda.set_device(int(place))
        return torch.device("cuda", int(place))
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def set_threads(threads: int | None) -> int:
    """Sets torch's CPU threads to `threads`, or to this process's share of the cores, and returns the number.

    Sums are split by thread, so the last bits of a result depend on this number: a resumed run wants the
    same one.
    """
    beside = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    chosen = threads or max(1, (os.cpu_count() or 1) // beside)
    torch.set_num_threads(chosen)
    return chosen


def prepare_torch(seed: int, device: torch.device) -> None:
    """Seeds torch, turns cuDNN's attention off and, on the CPU, refuses what depends on timing."""
    torch.manual_seed(seed)
    # Its backward gives gradients that are not numbers where a mask is given, on Hopper from torch 2.11 on
    # (github.com/pytorch/pytorch/issues/196678), and training Gemma 3 diverged in its first steps.
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.use_deterministic_algorithms(device.type == "cpu")
    # Otherwise torch fills every new buffer with NaN. TRL makes one of 32,768 columns in each step, however small the
    # vocabulary is, and filling it took over half of a tiny model's training.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def frozen_dtype(device: torch.device, model_type: str = "") -> torch.dtype:
    """Precision of weights that no optimiser touches: on a GPU bfloat16, or float16 on one that lacks it; float32 on
    the CPU, and of models whose activations float16 cannot hold."""
    if has_bfloat16(device):
        return torch.bfloat16
    half = device.type in ("cuda", "mps") and holds_in_float16(model_type)
    return torch.float16 if half else torch.float32


def has_bfloat16(device: torch.device) -> bool:
    """Whether it is a GPU that multiplies in bfloat16 by itself; torch would emulate it on others, slower than in
    float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "mps" and apple_has_bfloat16()


def choose_precision(
    device: torch.device, hidden: int, wanted: Precision | None = None, model_type: str = ""
) -> torch.dtype:
    """Precision of the matrix products of a model with so many hidden dimensions: `wanted`, or on a GPU that of its
    frozen weights, on a CPU bfloat16 where it multiplies in it natively, else float32. There, smaller models stay in
    float32: for them the conversions cost more than the products save."""
    if wanted is not None:
        return {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}[wanted]
    native = device.type == "cpu" and hidden >= LARGE and multiplies_bfloat16()
    return torch.bfloat16 if native else frozen_dtype(device, model_type)


@functools.cache
def multiplies_bfloat16() -> bool:
    """Whether the processor multiplies faster in bfloat16 than in float32: with AMX, or with AVX-512 BF16 unless it is
    Intel's, which without AMX took 1.5 times as long as float32 (benchmarks.real_base --rates)."""
    told = torch.cpu.get_capabilities()
    return bool(told.get("amx_bf16") or (told.get("avx512_bf16") and "Intel" not in str(told.get("cpu_name"))))


def autocast(device: torch.device, precision: torch.dtype) -> contextlib.AbstractContextManager[object]:
    """Runs matrix products in `precision` over float32 weights; does nothing for float32."""
    if precision is torch.float32:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=precision)


def try_device() -> dict[str, object]:
    """`torch` (its version), `device`, and `error`: why a product of matrices could not be calculated there, or ""."""
    device = torch.device("cpu")
    try:
        device = choose_device()
        with autocast(device, choose_precision(device, LARGE)):
            product = torch.ones(64, 64, device=device) @ torch.ones(64, 64, device=device)
        error = "" if float(product.float().mean()) == 64.0 else "its results are wrong"
    except (RuntimeError, AssertionError) as failure:  # a build without CUDA asserts
        error = str(failure).splitlines()[0]
    return {"torch": torch.__version__, "device": str(device), "error": error}


if __name__ == "__main__":
    print(json.dumps(try_device()))  # noqa: T201 - what was asked for
