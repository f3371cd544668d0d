"""What a call may cost at most, which it reserves of its key's budget: the tokens of what is sent, estimated, and as
many as the answer may have, at all servers that may be asked: one that fails may count what it has done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal

from models_registry.backends.places import Place
from models_registry.backends.token_estimates import Sizes, estimate_tokens

TOKENS_WITHOUT_LIMIT = 4096
"""Of an answer whose length neither the client nor the version limits."""
MOST_TOKENS = 1 << 31
PLACES = Decimal("0.00000001")
MOST = Decimal(999_999)
"""A column holds no more."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question that a server may be asked. `sent`: what goes to it; `most_tokens`: of the answer, None if
    unlimited."""

    place: Place
    sent: Sizes
    most_tokens: int | None


def estimate_highest_cost(questions: Iterable[Question]) -> Decimal:
    """Returns the cost of the dearest question, as one of them is asked; 0 without any. Rounded up to the column's
    places."""
    return _round(max((_price(one) for one in questions), default=Decimal(0)))


def add_highest_costs(costs: Iterable[Decimal]) -> Decimal:
    """Adds up the costs of questions that are all asked."""
    return _round(sum(costs, Decimal(0)))


def _round(cost: Decimal) -> Decimal:
    return min(cost, MOST).quantize(PLACES, ROUND_UP)


def _price(question: Question) -> Decimal:
    endpoint = question.place.endpoint
    tokens_in, _ = estimate_tokens(endpoint, question.place.model, question.sent)
    most = TOKENS_WITHOUT_LIMIT if question.most_tokens is None else min(question.most_tokens, MOST_TOKENS)
    return endpoint.price(tokens_in, most) or Decimal(0)
