"""How well rankings put what is relevant first: hit@1, hit@3, NDCG@10, recall@10, with intervals by cluster. PURE.

Runs, suites and `manage.py evaluate` measure with it (docs/learning.md, "Rankings").
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from models_registry.statistics.intervals import Interval, clustered_mean, paired_difference
from training.engine.rows.slates import best_first


@dataclass(frozen=True, slots=True)
class Scored:
    """The items of one ranking: their scores, and whether each is relevant; at least one is. `group`: the cluster."""

    id: str
    group: str
    scores: Sequence[float]
    relevant: Sequence[bool]

    @property
    def order(self) -> list[bool]:
        """Whether the item in each place is relevant, by falling score. Equal scores stand in an order that depends on
        the ranking's id alone: in that of the log they would all do as well as the log."""
        places = list(range(len(self.scores)))
        random.Random(self.id).shuffle(places)  # noqa: S311 - an order, not a secret
        ordered = best_first({str(place): self.scores[place] for place in places})
        return [self.relevant[int(place)] for place in ordered]


def hit(order: Sequence[bool], places: int) -> float:
    """1 where a relevant item stands among the first places, else 0."""
    return float(any(order[:places]))


def ndcg(order: Sequence[bool], places: int) -> float:
    """Σ_i rel_i / log₂(i + 1) over the first places, divided by the largest that is possible (Järvelin and Kekäläinen
    2002), rel being 0 or 1."""
    gain = math.fsum(1.0 / math.log2(place + 2) for place, right in enumerate(order[:places]) if right)
    most = math.fsum(1.0 / math.log2(place + 2) for place in range(min(places, sum(order))))
    return gain / most


def recall(order: Sequence[bool], places: int) -> float:
    """The share of the relevant items that stand among the first places."""
    return sum(order[:places]) / sum(order)


MEASURES: Mapping[str, Callable[[Sequence[bool]], float]] = {
    "hit_1": lambda order: hit(order, 1),
    "hit_3": lambda order: hit(order, 3),
    "ndcg_10": lambda order: ndcg(order, 10),
    "recall_10": lambda order: recall(order, 10),
}
"""By name; each from 0 to 1."""
TITLES = (
    ("hit_1", "Rankings with a right item first", "share"),
    ("hit_3", "Rankings with a right item in the first 3", "share"),
    ("ndcg_10", "NDCG@10 of rankings", "number"),
    ("recall_10", "Right items in the first 10", "share"),
)
"""For pages: name, title, and how it is written."""


def measure_rankings(rankings: Sequence[Scored]) -> dict[str, Interval]:
    """Each measure's mean over the rankings, clustered by group; empty without any."""
    groups = [one.group for one in rankings]
    orders = [one.order for one in rankings]
    return {
        name: clustered_mean(list(map(of, orders)), groups).within(0.0, 1.0) for name, of in MEASURES.items() if orders
    }


def compare_rankings(these: Sequence[Scored], others: Sequence[Scored]) -> dict[str, Interval]:
    """These minus the others, paired; empty without any. Raises ValueError for different rankings."""
    if [one.id for one in these] != [one.id for one in others]:
        raise ValueError("the rankings are different ones")
    groups = [one.group for one in these]
    orders = [(one.order, other.order) for one, other in zip(these, others, strict=True)]
    return {
        name: paired_difference([of(one) for one, _ in orders], [of(other) for _, other in orders], groups).within(
            -1.0, 1.0
        )
        for name, of in MEASURES.items()
        if orders
    }
