"""Models of many families with random weights, small enough for a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    OlmoConfig,
    OlmoForCausalLM,
    PhiConfig,
    PhiForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

WINDOW = 4
"""Tokens that a layer with a sliding window sees."""
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": 1,
}
SLIDES = {"sliding_window": WINDOW}
GEMMA = SHAPE | SLIDES | {"head_dim": 8, "layer_types": ["sliding_attention", "full_attention"]}

FAMILIES: dict[str, Callable[[int], Any]] = {
    "qwen2": lambda vocabulary: Qwen2ForCausalLM(
        Qwen2Config(
            **SHAPE, **SLIDES, vocab_size=vocabulary, use_sliding_window=True, max_window_layers=1,
            tie_word_embeddings=True,
        )
    ),
    "llama": lambda vocabulary: LlamaForCausalLM(LlamaConfig(**SHAPE, vocab_size=vocabulary)),
    "mistral": lambda vocabulary: MistralForCausalLM(MistralConfig(**SHAPE, **SLIDES, vocab_size=vocabulary)),
    "gemma2": lambda vocabulary: Gemma2ForCausalLM(
        Gemma2Config(**GEMMA, vocab_size=vocabulary, final_logit_softcapping=2.0)
    ),
    "gemma3": lambda vocabulary: Gemma3ForCausalLM(Gemma3TextConfig(**GEMMA, vocab_size=vocabulary)),
    "gpt2": lambda vocabulary: GPT2LMHeadModel(
        GPT2Config(
            vocab_size=vocabulary, n_embd=32, n_layer=2, n_head=4, initializer_range=0.3, bos_token_id=None,
            eos_token_id=1,
        )
    ),
    "phi": lambda vocabulary: PhiForCausalLM(PhiConfig(**SHAPE, vocab_size=vocabulary)),
    "olmo": lambda vocabulary: OlmoForCausalLM(OlmoConfig(**SHAPE, vocab_size=vocabulary)),
    "olmo tied": lambda vocabulary: OlmoForCausalLM(
        OlmoConfig(**SHAPE, vocab_size=vocabulary, tie_word_embeddings=True)
    ),
}  # fmt: skip


def make_model(family: str, vocabulary: int) -> Any:
    """In eval mode; norms and biases are random, too, where a fresh model has ones and zeros."""
    torch.manual_seed(0)
    model = FAMILIES[family](vocabulary).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model
