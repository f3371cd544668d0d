"""The architectures that were tried from training to export: the names of their matrices, and what works with each.

No torch, no Django: checks before a run read the table, and docs/engine.md prints it. tests/training/engine/
test_architectures.py tries every cell on a tiny model, and compares the names with those that
`training.engine.models.targets` finds in a model. Other architectures are looked at by the engine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

Targets = Literal["all-linear", "attention", "query-value"]
TARGETS: tuple[Targets, ...] = get_args(Targets)
SEPARATE = ("q_proj", "k_proj", "v_proj", "o_proj")
QUERY_VALUE = ("q_proj", "v_proj")
GATED = ("gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, slots=True)
class Matrices:
    """Ends of the names of the matrices that an adapter is on, by what is asked for. None where a reason stands in
    `why_not` instead: `query_value` where queries, keys and values are one matrix, all three where there is no
    attention.
    """

    linear: tuple[str, ...] | None
    attention: tuple[str, ...] | None = None
    query_value: tuple[str, ...] | None = None
    why_not: Mapping[Targets, str] | None = None

    def of(self, targets: Targets) -> tuple[str, ...] | None:
        return {"all-linear": self.linear, "attention": self.attention, "query-value": self.query_value}[targets]

    def usable(self) -> list[Targets]:
        return [targets for targets in TARGETS if self.of(targets) is not None]

    def find_fault(self, targets: Targets) -> str:
        """Why no adapter can be on these; "" where one can."""
        return "" if self.of(targets) is not None else (self.why_not or {}).get(targets, NONE_THERE)


NONE_THERE = "the model has no such matrices"
FUSED = "queries, keys and values are one matrix, so an adapter for queries and values would change the keys as well"
NO_ATTENTION = "the model has no attention"
EXPERTS = "the experts' weights are no matrices of their own, and an adapter on them could not be served"


@dataclass(frozen=True, slots=True)
class Architecture:
    """`title` for people. Every architecture here is trained, scored in batches, served and merged; `onnx` and `gguf`
    are those that were also compared in these formats. Without `float16` its activations grow beyond what 16 bits with
    a small exponent hold, so that a GPU without bfloat16 has it in float32."""

    title: str
    matrices: Matrices
    onnx: bool = False
    gguf: bool = False
    float16: bool = True


def _llama_like(*more: str) -> Matrices:
    return Matrices((*SEPARATE, *more), SEPARATE, QUERY_VALUE)


def _fused(name: str, output: str, *more: str) -> Matrices:
    return Matrices((name, output, *more), (name, output), None, {"query-value": FUSED})


ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": Architecture("Llama", _llama_like(*GATED), onnx=True, gguf=True),
    "mistral": Architecture("Mistral", _llama_like(*GATED), onnx=True, gguf=True),
    "qwen2": Architecture("Qwen 2 and 2.5", _llama_like(*GATED), onnx=True, gguf=True),
    "qwen3": Architecture("Qwen 3", _llama_like(*GATED), onnx=True, gguf=True),
    "qwen3_moe": Architecture(
        "Qwen 3 MoE", Matrices(None, SEPARATE, QUERY_VALUE, {"all-linear": EXPERTS}), onnx=False, gguf=False
    ),
    "gemma2": Architecture("Gemma 2", _llama_like(*GATED), onnx=True, float16=False),
    "gemma3_text": Architecture("Gemma 3", _llama_like(*GATED), onnx=True, gguf=True, float16=False),
    "phi3": Architecture("Phi 3", _fused("qkv_proj", "o_proj", "gate_up_proj", "down_proj"), onnx=True),
    "phi": Architecture(
        "Phi",
        Matrices(
            ("q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"), ("q_proj", "k_proj", "v_proj", "dense"), QUERY_VALUE
        ),
        onnx=True,
    ),
    "gpt2": Architecture("GPT-2", _fused("c_attn", "attn.c_proj", "c_fc", "mlp.c_proj"), onnx=True),
    "gpt_neox": Architecture(
        "GPT-NeoX", _fused("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"), onnx=True
    ),
    "opt": Architecture(
        "OPT",
        Matrices(
            ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"),
            ("q_proj", "k_proj", "v_proj", "out_proj"),
            QUERY_VALUE,
        ),
        onnx=True,
    ),
    "olmo2": Architecture("OLMo 2", _llama_like(*GATED), onnx=True),
    "smollm3": Architecture("SmolLM3", _llama_like(*GATED), onnx=True, gguf=True),
    "granite": Architecture("Granite", _llama_like(*GATED), onnx=True),
    "starcoder2": Architecture("StarCoder2", _llama_like("c_fc", "c_proj"), onnx=True),
    "mamba": Architecture(
        "Mamba",
        Matrices(("in_proj",), None, None, {"attention": NO_ATTENTION, "query-value": NO_ATTENTION}),
    ),
}
"""By `model_type` of config.json. Mamba's kernels for GPUs read the other weights without calling their layers, so an
adapter is on the first matrix alone."""


def read_model_type(folder: Path) -> str:
    """Of the folder's config.json; "" where there is none, or it does not tell."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(config.get("model_type", "")) if isinstance(config, dict) else ""


def holds_in_float16(model_type: str) -> bool:
    """Whether float16 holds such a model's activations; of architectures outside the table it is taken for granted."""
    known = ARCHITECTURES.get(model_type)
    return known is None or known.float16


def find_target_fault(model_type: str, targets: Targets) -> tuple[str, str] | None:
    """Why no adapter can be on these matrices of a model of this architecture, and what would be right; None where one
    can, and of architectures that are not in the table."""
    known = ARCHITECTURES.get(model_type)
    if known is None or not (why := known.matrices.find_fault(targets)):
        return None
    return f"{targets} cannot be adapted in {known.title}: {why}", say_targets(known.matrices.usable())


def choose_targets(model_type: str) -> Targets:
    """The most matrices that an adapter can be on; of architectures that are not in the table, all."""
    known = ARCHITECTURES.get(model_type)
    return next(iter(known.matrices.usable()), TARGETS[0]) if known is not None else TARGETS[0]


def say_targets(usable: Sequence[Targets]) -> str:
    """What a refusal names as right."""
    return " or ".join(usable) or "every weight (leave lora out)"
