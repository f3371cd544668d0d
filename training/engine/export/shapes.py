"""The model families that GGUF files are written of: their hyperparameters, the names and layout of their tensors.

What is here follows llama.cpp's own converters (MIT licence), which its loaders expect. What a loader would not honour
is named by `shape_faults`, and refused before work starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gguf import GGUFWriter, RopeScalingType
from numpy.typing import NDArray

from training.engine.export.recipes import Layout

Weights = NDArray[np.float32]
GEMMA_PERIOD = 6
"""Every sixth layer of Gemma 3 sees the whole text. llama.cpp takes it for granted, and so the next."""
GEMMA_LOCAL_BASE = 10_000.0
SMOLLM3_PERIOD = 4
"""Every fourth layer of SmolLM3 has no rotary positions, which llama.cpp takes for granted."""


@dataclass(frozen=True, slots=True)
class Family:
    """`architecture` is its name in GGUF; `faults` says what of a config isn't supported; `describe` writes what is
    its own into the header; `lay_out` turns a tensor, by its name in transformers, into llama.cpp's layout."""

    architecture: str
    faults: Callable[[Any], list[str]]
    describe: Callable[[GGUFWriter, Any], None]
    lay_out: Callable[[str, Weights, Any], Weights]


def layout_of(config: Any, *, tied: bool) -> Layout:
    return Layout(config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads, tied)


def head_size(config: Any) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def shape_faults(config: Any) -> list[str]:
    """What of this transformers config GGUF files can't be written of, each with what could be."""
    names = config.architectures or ["none"]
    family = FAMILIES.get(names[0])
    if family is None:
        return [f"the shape {names[0]} is not supported: {', '.join(FAMILIES)} are"]
    return family.faults(config)


def family_of(config: Any) -> Family:
    """Raises ValueError with every fault."""
    if faults := shape_faults(config):
        raise ValueError("; ".join(faults))
    return FAMILIES[config.architectures[0]]


def describe(writer: GGUFWriter, config: Any) -> None:
    """The hyperparameters every family has, and then those of its own."""
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_key_length(head_size(config))
    writer.add_value_length(head_size(config))
    family_of(config).describe(writer, config)


def extra_tensors(config: Any) -> Mapping[str, Weights]:
    """Tensors that transformers computes and llama.cpp reads: the factors of Llama 3's longer positions."""
    if config.architectures[0] != "LlamaForCausalLM" or _rope_type(config.rope_parameters) != "llama3":
        return {}
    return {"rope_freqs.weight": _llama3_factors(config)}


def _rope_type(rope: Mapping[str, Any]) -> str:
    return str(rope.get("rope_type") or "default")


def _rope_fault(rope: Mapping[str, Any], supported: tuple[str, ...]) -> list[str]:
    kind = _rope_type(rope)
    return [] if kind in supported else [f"rope_type {kind} is not supported: {', '.join(supported)}"]


def _activation_fault(found: str, meant: str) -> list[str]:
    return [] if found == meant else [f"the activation {found} is not supported: llama.cpp computes {meant}"]


def _qwen2_faults(config: Any) -> list[str]:
    faults = _rope_fault(config.rope_parameters, ("default",)) + _activation_fault(config.hidden_act, "silu")
    if config.use_sliding_window:
        faults.append("use_sliding_window is not supported: llama.cpp lets every layer of Qwen2 see the whole text")
    if head_size(config) * config.num_attention_heads != config.hidden_size:
        faults.append("head_dim is not supported where it isn't hidden_size / num_attention_heads")
    return faults


def _llama_faults(config: Any) -> list[str]:
    return _rope_fault(config.rope_parameters, ("default", "llama3")) + _activation_fault(config.hidden_act, "silu")


def _mistral_faults(config: Any) -> list[str]:
    faults = _llama_faults(config)
    if config.sliding_window is not None and config.sliding_window < config.max_position_embeddings:
        faults.append("sliding_window is not supported: llama.cpp lets every layer of Mistral see the whole text")
    return faults


def _qwen3_faults(config: Any) -> list[str]:
    faults = _rope_fault(config.rope_parameters, ("default",)) + _activation_fault(config.hidden_act, "silu")
    if config.use_sliding_window:
        faults.append("use_sliding_window is not supported: llama.cpp lets every layer of Qwen3 see the whole text")
    if config.attention_bias:
        faults.append("attention_bias is not supported: llama.cpp's Qwen3 has none")
    return faults


def _smollm3_faults(config: Any) -> list[str]:
    faults = _rope_fault(config.rope_parameters, ("default",)) + _activation_fault(config.hidden_act, "silu")
    layers = [int((layer + 1) % SMOLLM3_PERIOD != 0) for layer in range(config.num_hidden_layers)]
    if list(config.no_rope_layers) != layers:
        faults.append(f"no_rope_layers are not supported unless every {SMOLLM3_PERIOD}th layer is one")
    if set(config.layer_types) != {"full_attention"}:
        faults.append("sliding layers are not supported: llama.cpp lets every layer of SmolLM3 see the whole text")
    return faults


def _gemma3_faults(config: Any) -> list[str]:
    full, local = _gemma_ropes(config)
    faults = _rope_fault(full, ("default", "linear")) + _rope_fault(local, ("default",))
    faults += _activation_fault(config.hidden_activation, "gelu_pytorch_tanh")
    layers = ["full_attention" if (layer + 1) % GEMMA_PERIOD == 0 else "sliding_attention"
              for layer in range(config.num_hidden_layers)]  # fmt: skip
    if list(config.layer_types) != layers:
        faults.append(f"layer_types are not supported unless every {GEMMA_PERIOD}th layer is full_attention")
    if local["rope_theta"] != GEMMA_LOCAL_BASE:
        faults.append(f"rope_theta of sliding layers must be {GEMMA_LOCAL_BASE:g}")
    if config.query_pre_attn_scalar != head_size(config):
        faults.append(f"query_pre_attn_scalar must be head_dim, {head_size(config)}")
    if config.attn_logit_softcapping is not None:
        faults.append("attn_logit_softcapping is not supported")
    if config.use_bidirectional_attention:
        faults.append("use_bidirectional_attention is not supported")
    return faults


def _describe_qwen2(writer: GGUFWriter, config: Any) -> None:
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])


def _describe_llama(writer: GGUFWriter, config: Any) -> None:
    writer.add_vocab_size(config.vocab_size)
    writer.add_rope_dimension_count(head_size(config))
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])


def _describe_gemma3(writer: GGUFWriter, config: Any) -> None:
    full, _ = _gemma_ropes(config)
    writer.add_rope_freq_base(full["rope_theta"])
    writer.add_sliding_window(config.sliding_window)
    if _rope_type(full) == "linear":
        writer.add_rope_scaling_type(RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(full["factor"])
    if config.final_logit_softcapping is not None:
        writer.add_final_logit_softcapping(config.final_logit_softcapping)


def _gemma_ropes(config: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return config.rope_parameters["full_attention"], config.rope_parameters["sliding_attention"]


def _as_it_is(_: str, weights: Weights, __: Any) -> Weights:
    return weights


def _lay_out_llama(name: str, weights: Weights, config: Any) -> Weights:
    """llama.cpp rotates neighbouring rows of Llama's queries and keys, transformers rows half a head apart."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
    if heads is None:
        return weights
    halves = weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    return halves.swapaxes(1, 2).reshape(weights.shape)


def _lay_out_gemma3(name: str, weights: Weights, _: Any) -> Weights:
    """Gemma's norms multiply by 1 + weight, llama.cpp's by the weight."""
    return weights + np.float32(1) if name.endswith("norm.weight") else weights


def _llama3_factors(config: Any) -> Weights:
    """By what each frequency is divided: 1 for the short waves, `factor` for the long ones, between them both mixed.

    As in transformers' `_compute_llama3_parameters`.
    """
    rope = config.rope_parameters
    size = head_size(config)
    original, factor = rope["original_max_position_embeddings"], rope["factor"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    factors = []
    for place in range(0, size, 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (place / size)
        smooth = min(1.0, max(0.0, (original / wavelength - low) / (high - low)))
        factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, dtype=np.float32)


FAMILIES: Mapping[str, Family] = {
    "Qwen2ForCausalLM": Family("qwen2", _qwen2_faults, _describe_qwen2, _as_it_is),
    "Qwen3ForCausalLM": Family("qwen3", _qwen3_faults, _describe_qwen2, _as_it_is),
    "MistralForCausalLM": Family("llama", _mistral_faults, _describe_llama, _lay_out_llama),
    "SmolLM3ForCausalLM": Family("smollm3", _smollm3_faults, _describe_llama, _lay_out_llama),
    "LlamaForCausalLM": Family("llama", _llama_faults, _describe_llama, _lay_out_llama),
    "Gemma3ForCausalLM": Family("gemma3", _gemma3_faults, _describe_gemma3, _lay_out_gemma3),
}
