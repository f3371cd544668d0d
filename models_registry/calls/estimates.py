"""What a call may cost at most, which it reserves of its key's budget: the tokens of what is sent, estimated, and as
many as the answer may have, at all servers that may be asked: one that fails may count what it has done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal

from models_registry.backends.lost_answers import price_highest
from models_registry.backends.places import Place
from models_registry.backends.token_estimates import Sizes

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
    place = question.place
    return price_highest(place.endpoint, place.model, question.sent, question.most_tokens)
