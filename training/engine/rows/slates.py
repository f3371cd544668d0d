"""Rankings from items that were scored one by one. Neither torch nor Django.

A model answers of each item shown whether it is right for the first place. The log-odds of its yes is the item's score
s, and the probability of a ranking a_1 … a_k of the items S that were shown is Plackett and Luce's (Plackett 1975,
Luce 1959), first place first, each place drawn from what is left:

    P(a_1 … a_k) = Π_j exp(s(a_j)) / Σ_{b in S without a_1 … a_{j−1}} exp(s(b))

Datasets, `reward_weighted` and the evaluation of rankings use it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from training.engine.rows.types import RIGHT_ABOVE, YES, Labelled, Logged, right_or_wrong

LEAST = 1e-9
"""Probabilities closer to 0 or 1 count as so close."""

Item = TypeVar("Item", Labelled, Logged)


def find_slates(rows: Sequence[Item]) -> dict[str, list[Item]]:
    """The items of each ranking in the order in which they were ranked, those that were not ranked last."""
    slates: dict[str, list[Item]] = {}
    for row in rows:
        if row.slate is not None:
            slates.setdefault(row.slate.id, []).append(row)
    return {name: sorted(items, key=_place) for name, items in slates.items()}


def _place(row: Labelled | Logged) -> float:
    return row.slate.place if row.slate is not None and row.slate.place is not None else math.inf


@dataclass(frozen=True, slots=True)
class Ranking:
    """Items that were shown together, and whether each is relevant; at least one is, and one is not. `group` is the
    cluster for intervals."""

    id: str
    group: str
    items: tuple[Labelled | Logged, ...]
    relevant: tuple[bool, ...]


def find_rankings(rows: Sequence[Labelled] | Sequence[Logged]) -> list[Ranking]:
    """Those of which is known what is relevant. Of labelled rows that is what was answered with yes; of decisions the
    item in the first place, where it was right. Where it was wrong nobody knows, and the ranking is left out."""
    labelled = [row for row in rows if isinstance(row, Labelled)]
    logged = [row for row in rows if isinstance(row, Logged)]
    relevant = {row.id for row in labelled if row.answer == YES}
    relevant |= {row.id for row, right in right_or_wrong(logged) if right > RIGHT_ABOVE and row.action == YES}
    slates: dict[str, Sequence[Labelled | Logged]] = {**find_slates(labelled), **find_slates(logged)}
    found = []
    for name, items in slates.items():
        told = tuple(row.id in relevant for row in items)
        if {True, False} <= set(told):
            found.append(Ranking(name, items[0].group or name, tuple(items), told))
    return found


def first_propensity(items: Sequence[Logged]) -> float | None:
    """P(the first of these items is put first) under the policy that ranked them, null where it did not tell it.

    `items` as of `find_slates`. Where the policy told only the probability of the whole ranking, that is multiplied
    by how many rankings of this length begin with the item. Then E[1 / it] over the rankings that begin so is
    1 / P(first), if the policy may rank the rest in every way; it may exceed 1.
    """
    slate = items[0].slate
    if slate is None or slate.first is not None or slate.propensity is None:
        return slate.first if slate is not None else None
    ranked = sum(1 for row in items if row.slate is not None and row.slate.place is not None)
    return slate.propensity * math.perm(len(items) - 1, max(ranked, 1) - 1)


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
