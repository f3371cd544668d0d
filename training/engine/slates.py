"""Rankings from items that were scored one by one. Neither torch nor Django.

A model answers of each item shown whether it is right for the first place. The log-odds of its yes is the item's score
s, and the probability of a ranking a_1 … a_k of the items S that were shown is Plackett and Luce's (Plackett 1975,
Luce 1959), first place first, each place drawn from what is left:

    P(a_1 … a_k) = Π_j exp(s(a_j)) / Σ_{b in S without a_1 … a_{j−1}} exp(s(b))

That of the logged policy is `Slate.propensity`; the ratio of the two is the weight of the slate's reward.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from training.engine.rows import Logged

LEAST = 1e-9
"""Probabilities closer to 0 or 1 count as so close."""


def find_slates(rows: Iterable[Logged]) -> dict[str, list[Logged]]:
    """The items of each ranking in the order in which they were ranked, those that were not ranked last."""
    slates: dict[str, list[Logged]] = {}
    for row in rows:
        if row.slate is not None:
            slates.setdefault(row.slate.id, []).append(row)
    return {name: sorted(items, key=_place) for name, items in slates.items()}


def _place(row: Logged) -> float:
    return row.slate.place if row.slate is not None and row.slate.place is not None else math.inf


def log_odds(p: float) -> float:
    """log p / (1 − p), finite: an item's score from the probability of its yes."""
    p = min(max(p, LEAST), 1.0 - LEAST)
    return math.log(p) - math.log1p(-p)


def best_first(scores: Mapping[str, float]) -> list[str]:
    """The items by falling score; equals in the order given."""
    return sorted(scores, key=lambda item: -scores[item])


def log_probability(scores: Mapping[str, float], ranking: Sequence[str]) -> float:
    """log P(ranking), at most 0. Raises KeyError for an item that has no score, ValueError for one that repeats."""
    if len(set(ranking)) < len(ranking):
        raise ValueError("an item stands in two places")
    left = dict(scores)
    total = 0.0
    for item in ranking:
        most = max(left.values())
        total += left[item] - most - math.log(math.fsum(math.exp(score - most) for score in left.values()))
        del left[item]
    return min(total, 0.0)
