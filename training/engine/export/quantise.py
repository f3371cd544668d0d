"""Rounds weights to GGUF's types by llama.cpp's own `ggml_quantize_chunk`, in the library of xllamacpp's wheel."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType
from numpy.typing import NDArray

from training.engine.export.llama_library import library_fault, llama_library
from training.engine.export.recipes import BLOCKS, row_bytes

FUNCTION = "ggml_quantize_chunk"


def quantiser_fault() -> str | None:
    """Why nothing can be quantised here, and what to install; None where it can."""
    return library_fault(FUNCTION)


@cache
def _quantise_chunk() -> Any:
    """(type, float32 in, bytes out, first weight, rows, columns, importance or None) → bytes written."""
    function = llama_library()[FUNCTION]
    function.restype = ctypes.c_size_t
    number = ctypes.c_int64
    function.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, number, number, number, ctypes.c_void_p]
    return function


def quantise(values: NDArray[np.float32], kind: str) -> NDArray[Any]:
    """Weights [rows, columns], or a vector, in this type: float32, float16, or bytes [rows, bytes of a row].

    Raises ValueError where a weight is no finite number in it or a row is not whole blocks, and LibraryMissing.
    """
    # The library ends the process over an infinite weight.
    if not np.isfinite(values).all():
        raise ValueError("not every weight is a finite number")
    if kind == "F32":
        return np.ascontiguousarray(values, dtype=np.float32)
    if kind == "F16":
        with np.errstate(over="ignore"):
            half = values.astype(np.float16)
        if not np.isfinite(half).all():
            raise ValueError(f"weights beyond {np.finfo(np.float16).max} do not fit in F16")
        return half
    rows, columns = values.shape
    if columns % BLOCKS[kind][0]:
        raise ValueError(f"rows of {columns} weights are not whole blocks of {BLOCKS[kind][0]}, which {kind} has")
    source = np.ascontiguousarray(values, dtype=np.float32)
    target = np.empty((rows, row_bytes(kind, columns)), dtype=np.uint8)
    number = GGMLQuantizationType[kind].value
    written = _quantise_chunk()(number, source.ctypes.data, target.ctypes.data, 0, rows, columns, None)
    if written != target.nbytes:
        raise ValueError(f"{FUNCTION} wrote {written} bytes of {kind} instead of {target.nbytes}")
    return target
