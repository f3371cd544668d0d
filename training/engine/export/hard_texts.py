"""Texts that tokenizers disagree on: what an export has to cut into the same tokens as the version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

ADDED, OPTIONS = 64, 200
"""At most so many of the tokenizer's added tokens, and of the rows' options."""

HARD_TEXTS = (
    "a",
    " a",
    "The quick brown fox jumps over the lazy dog.",
    "I'm sure they'll say it's theirs; we'd've KNOWN'T",
    "  two spaces   three    four\t\ttabs\n\nand\r\nnew lines \n",
    "trailing space ",
    "\n\n\n",
    "0 1 12 123 1234 12345 3.14159 1,000,000 2026-11-26T15:04:05Z 0x1F",
    "naïve café Ångström Å A\u030a ﬁ ﬀ ½ ² ™",
    "Привет, мир! Γειά σου Κόσμε שלום עולם مرحبا بالعالم",
    "你好，世界。こんにちは世界 안녕하세요 สวัสดี",
    "👩‍👩‍👧‍👦 👍🏽 🇩🇪 é\u200bx\u00a0y\ufeffz",
    "def f(x):\n    return {'a': [x ** 2, x // 3]}  # 100%\n",
    "https://example.org/a?b=c&d=%20#e user@example.org C:\\dir\\file.txt",
    '<b>&amp;</b> {"k": null} [x](y) **bold** `code` $\\frac{1}{2}$',
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "!!!???...---___===***///\\\\\\",
    "<|im_start|>user\nhi<|im_end|>\n<s></s>[INST]<start_of_turn>",
    "camelCaseAndPascalCase snake_case kebab-case SCREAMING_CASE",
)


def find_hard_texts(tokenizer: Any, rows: int, options: Iterable[str], rendered: Iterable[str]) -> list[str]:
    """The hard texts, the tokenizer's own added tokens alone and inside of words, the options that rows offer, and
    prompts in the chat template. Not tokens beyond the `rows` of the model's embeddings, which it could not read."""
    added = [token.content for place, token in tokenizer.added_tokens_decoder.items() if place < rows]
    chosen = [*added[: ADDED // 2], *added[-ADDED // 2 :]]  # control tokens stand first, options last
    around = [text for token in dict.fromkeys(chosen) for text in (token, f"the {token} of it", f"x{token}s {token}.")]
    offered = sorted(set(options))[:OPTIONS]
    return list(dict.fromkeys([*HARD_TEXTS, *around, *offered, *(f" {option}" for option in offered), *rendered]))
