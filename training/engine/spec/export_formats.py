"""The formats of exports, their options, what each has to reach, and which packages it needs. No torch, no Django.

Models of the database, forms, the API, commands and the engine read it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from importlib.util import find_spec
from typing import Any, Literal, get_args

from training.engine.spec.architectures import ARCHITECTURES

GB = 10**9
INSTALL = "run make exports, or install reckoner-ledger[export]"


class Format(StrEnum):
    """What the engine can write."""

    LORA = "lora"
    MERGED = "merged"
    ONNX = "onnx"
    GGUF = "gguf"
    SKLEARN = "sklearn"


CLASSIFIERS = (Format.ONNX, Format.SKLEARN)
"""What a classifier is written in; language models are in all but the last."""
Quantisation = Literal["Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "F16"]
QUANTISATIONS: tuple[Quantisation, ...] = get_args(Quantisation)
"""Of GGUF, from the smallest file to the largest."""
DEFAULT_QUANTISATION: Quantisation = "Q4_K_M"

_BY_MEMORY: tuple[tuple[int, Quantisation], ...] = ((32, "Q8_0"), (16, "Q6_K"), (8, "Q4_K_M"), (4, "Q3_K_M"))

EXACT = 0.999
"""Of formats that keep every weight."""
BOUNDS: Mapping[Quantisation, float | None] = {
    "F16": 0.99,
    "Q8_0": 0.99,
    "Q6_K": 0.98,
    "Q5_K_M": 0.97,
    "Q4_K_M": 0.95,
    "Q3_K_M": None,
    "Q2_K": None,
}
"""The least share of decisions that are those of the version, in [0, 1]; None: reported, and never refused for it."""

PACKAGES: Mapping[Format, tuple[str, ...]] = {
    Format.ONNX: ("onnx", "onnxscript", "onnxruntime"),
    Format.GGUF: ("gguf", "xllamacpp"),
    Format.SKLEARN: ("skops",),
}
SHAPES: Mapping[Format, tuple[str, ...]] = {
    Format.ONNX: tuple(name for name, known in ARCHITECTURES.items() if known.onnx),
    Format.GGUF: tuple(name for name, known in ARCHITECTURES.items() if known.gguf),
}
"""`model_type` of the architectures that were tried in a format; the others take any."""


def recommend_quantisation(memory_bytes: int) -> Quantisation:
    """For a machine with so much memory: the largest file that leaves room for other programs."""
    return next((name for least, name in _BY_MEMORY if memory_bytes >= least * GB), "Q2_K")


def find_bound(format: str, quantisation: str | None) -> float | None:
    """The least share of equal decisions, in [0, 1]; None where none is asked for."""
    return EXACT if quantisation is None else BOUNDS[quantisation]  # type: ignore[index]


def find_kind_faults(format: str, *, is_classifier: bool) -> list[str]:
    """Why a classifier, or a language model, cannot be written in the format."""
    if is_classifier and format not in CLASSIFIERS:
        return [f"{format} holds language models, and it is a classifier: export {' or '.join(CLASSIFIERS)}"]
    if not is_classifier and format == Format.SKLEARN:
        return [f"{format} holds classifiers, and it is a language model: export merged weights"]
    return []


def hash_options(options: Mapping[str, Any]) -> str:
    """SHA-256 of the options, whatever their order."""
    return hashlib.sha256(json.dumps(options, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def find_missing_packages(format: str) -> list[str]:
    """What has to be installed before the engine can write the format and load it again, for people."""
    missing = [name for name in PACKAGES.get(Format(format), ()) if find_spec(name) is None]
    return [f"{format} needs {', '.join(missing)}, which {_is(missing)} not installed: {INSTALL}"] if missing else []


def find_shape_faults(format: str, model_type: str) -> list[str]:
    """Why a model of this architecture (`model_type` of its config.json, "" where it is not known) cannot be written in
    the format."""
    known = SHAPES.get(Format(format))
    if known is None or not model_type or model_type in known:
        return []
    return [f"{format} takes {', '.join(known)}, and the model is {model_type}: export merged weights"]


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
