"""A folder with a tiny random model of each architecture of the table, by its `model_type`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from training.engine.models.loading import Loaded, build_tokenizer, save

SHAPE: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "initializer_range": 0.3, "max_position_embeddings": 128,
}  # fmt: skip
ALL_HEADS = {"num_key_value_heads": 4}
"""Of architectures that know no fewer heads for keys and values than for queries."""
HEADS = {"head_dim": 8}
SLIDES = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
OWN: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": None},
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": HEADS,
    "qwen3_moe": HEADS | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
    "gemma2": HEADS | SLIDES | {"query_pre_attn_scalar": 8},
    "gemma3_text": HEADS | SLIDES | {"query_pre_attn_scalar": 8},
    "phi3": {},
    "phi": {},
    "gpt2": ALL_HEADS,
    "gpt_neox": ALL_HEADS,
    "opt": ALL_HEADS | {"ffn_dim": 64, "word_embed_proj_dim": 32},
    "olmo2": {},
    "smollm3": {"num_hidden_layers": 4},
    "granite": {"embedding_multiplier": 3.0, "logits_scaling": 2.0, "residual_multiplier": 0.5},
    "starcoder2": {"sliding_window": None},
    "mamba": {"state_size": 4},
}
"""What a config of the architecture has besides SHAPE."""


def make_config(model_type: str, vocabulary: int = 320, **more: Any) -> Any:
    special = {"pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1}
    shape = SHAPE | OWN[model_type] | special | {"vocab_size": vocabulary} | more
    config = CONFIG_MAPPING[model_type](**shape)
    config.architectures = [type(make_meta(config)).__name__]
    return config


def make_meta(config: Any) -> Any:
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)


def write_architecture(folder: Path, model_type: str, texts: list[str], options: list[str], **more: Any) -> Path:
    """With norms and biases that are random, too, where a fresh model has ones and zeros."""
    torch.manual_seed(0)
    tokenizer = build_tokenizer(texts, options, 320)
    model = AutoModelForCausalLM.from_config(make_config(model_type, len(tokenizer), **more)).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1 and "mixer" not in name:
                parameter.add_(0.3 * torch.randn_like(parameter))
    save(Loaded(model, tokenizer), folder)
    return folder
