"""Prices questions by estimate: the most that one may cost, and the cost of one whose answer was lost, which is its
prompt and as much as the server can have written in that time. `asking` and `calls.estimates` use it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import msgspec

from models_registry.backends.endpoint import Endpoint, WriteItem
from models_registry.backends.prompts import Prompt
from models_registry.backends.token_estimates import Sizes, estimate_most_written, estimate_tokens

TOKENS_WITHOUT_LIMIT = 4096
"""Of an answer whose length neither the client nor the version limits."""
MOST_TOKENS = 1 << 31


def measure_scoring(prompt: Prompt, options: Sequence[str]) -> Sizes:
    return Sizes(len(msgspec.json.encode([prompt.as_messages(), options])))


def measure_writing(item: WriteItem) -> Sizes:
    return Sizes(len(msgspec.json.encode([item.prompt.as_messages(), item.tools, item.schema])))


def price_highest(endpoint: Endpoint, model: str, sent: Sizes, most_tokens: int | None) -> Decimal:
    """`most_tokens`: of the answer, None if unlimited."""
    tokens_in, _ = estimate_tokens(endpoint, model, sent)
    most = TOKENS_WITHOUT_LIMIT if most_tokens is None else min(most_tokens, MOST_TOKENS)
    return endpoint.price(tokens_in, most) or Decimal(0)


def price_lost(endpoint: Endpoint, model: str, sent: Sizes, most_tokens: int | None, seconds: float) -> Decimal:
    """Returns what a server costs that had the question for so many seconds."""
    return price_highest(endpoint, model, sent, limit_written(endpoint, model, most_tokens, seconds))


def limit_written(endpoint: Endpoint, model: str, most_tokens: int | None, seconds: float) -> int | None:
    """Returns the most tokens of an answer that has been written for so many seconds; None if unlimited."""
    fastest = estimate_most_written(endpoint, model, seconds)
    if fastest is None:
        return most_tokens
    return fastest if most_tokens is None else min(fastest, most_tokens)
