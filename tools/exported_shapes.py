"""Folders of tiny random models of the shapes that GGUF is written of, each with its family's kind of tokenizer.

For tests and benchmarks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers import models as token_models
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from training.engine.models.loading import CHAT_TEMPLATE, ROLES, Loaded, build_tiny, build_tokenizer, save
from training.engine.models.option_tokens import as_tokens
from training.engine.spec.run_spec import TinyShape

OPTIONS = [f"option {number}" for number in range(40)] + ["grüße", "naïve"]
"""More than get a token each."""
TEXTS = [
    "Book a flight to Berlin, please: 2 adults, 1 child.",
    "Pay the tax refund of 1234.50 now!",
    "nurse clinic",
] * 9
LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
HARD = [
    "", " ", "a", " a", "The quick brown fox; it's theirs, we'd've KNOWN'T",
    "  two   three    four\t\ttabs\n\nand\r\nlines \n",
    "0 1 12 123 1234 12345 3.14159 1,000,000 2026-11-26T15:04:05Z 0x1F",
    "na\u00efve caf\u00e9 \u00bd \u00b2 \u2122",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "\u4f60\u597d\uff0c\u4e16\u754c \uc548\ub155",
    "\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea x\u00a0y\ufeffz",
    "def f(x):\n    return {'a': [x ** 2]}  # 100%\n", "!!!???...---___\\\\", "<|im_start|>user\nhi<|im_end|><s></s>",
    "<|user|>option 7 or option 12, option 1; na\u00efve<|end|><|assistant|>option 39<|end|>",
]  # fmt: skip
"""Written in NFC, options as whole words: what else there is, GGUF can't express."""


def byte_level(split: str) -> Any:
    """A tokenizer as Llama 3 has it: beginning of sequence in front, words of the vocabulary taken whole."""
    tokenizer = Tokenizer(token_models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|begin_of_text|>", "<|end|>", *ROLES]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing("<|begin_of_text|> $A", special_tokens=[(special[0], 0)])
    return _wrapped(tokenizer, bos_token=special[0], eos_token=special[1])


def sentence_pieces() -> Any:
    """A tokenizer as Gemma has it: spaces as a letter, bytes for what is unknown, every merge that gives a token."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    pieces = Tokenizer(token_models.BPE(unk_token="<unk>"))
    pieces.normalizer = normalizers.Replace(" ", "\u2581")
    pieces.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    pieces.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=200, special_tokens=special, show_progress=False))
    learnt = sorted(pieces.get_vocab().items(), key=lambda item: item[1])[len(special) :]
    words = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), *(word for word, _ in learnt)]
    places = {word: place for place, word in enumerate(words)}
    merges = [
        (word[:cut], word[cut:])
        for word, _ in learnt
        for cut in range(1, len(word))
        if word[:cut] in places and word[cut:] in places
    ]
    tokenizer = Tokenizer(
        token_models.BPE(vocab=places, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.post_processor = processors.TemplateProcessing("<bos> $A", special_tokens=[("<bos>", 2)])
    tokenizer.add_special_tokens([AddedToken(role, special=True) for role in (*special, "<|end|>", *ROLES)])
    return _wrapped(tokenizer, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", unk_token="<unk>")


def _wrapped(tokenizer: Tokenizer, **special: str) -> Any:
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, extra_special_tokens=list(ROLES), **special)
    wrapped.chat_template = "{{ bos_token }}" + CHAT_TEMPLATE
    wrapped.add_tokens(as_tokens(OPTIONS))
    return wrapped


def write_shape(folder: Path, family: str, hidden: int, layers: int = 2) -> Path:
    """A model of this family with random weights, its norms as well, and the tokenizer of its kind."""
    torch.manual_seed(0)
    shape = {
        "hidden_size": hidden, "intermediate_size": hidden // 2, "num_hidden_layers": layers, "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": hidden // 8, "max_position_embeddings": 256, "tie_word_embeddings": True,
    }  # fmt: skip
    if family == "qwen2":
        tokenizer = build_tokenizer(TEXTS, OPTIONS, 400)
        model = build_tiny(TinyShape(hidden=hidden, layers=layers, heads=8, key_value_heads=2), tokenizer)
    elif family == "llama":
        tokenizer = byte_level(LLAMA3_SPLIT)
        rope = {
            "rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
        }  # fmt: skip
        config = shape | {"rope_parameters": rope, "vocab_size": len(tokenizer), "tie_word_embeddings": False}
        model = LlamaForCausalLM(LlamaConfig(**config, eos_token_id=1, bos_token_id=0))
    else:
        tokenizer = sentence_pieces()
        config = shape | {"query_pre_attn_scalar": hidden // 8, "sliding_window": 16, "vocab_size": len(tokenizer) + 3}
        model = Gemma3ForCausalLM(Gemma3TextConfig(**config))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    save(Loaded(model, tokenizer), folder)
    return folder
