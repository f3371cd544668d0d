"""What a judge and people said of the same rows, as arrays. PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Names = NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Labelled:
    """Rows that both scored, all of shape (n,).

    `clusters`: the unit of each, or a name of its own. `lengths`: characters of what was judged; NaN where it is no
    text. `places`: where it stood among what the judge saw, from 0; NaN where there was no order. `slices`: for each
    way to cut, such as "version", the part that each row is in.
    """

    people: Vector
    judge: Vector
    clusters: Names
    lengths: Vector
    places: Vector
    slices: Mapping[str, Names] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parts = [self.people, self.judge, self.clusters, self.lengths, self.places, *self.slices.values()]
        if any(part.shape != (self.people.size,) for part in parts):
            raise ValueError("what is said of the labelled rows must have one shape (n,)")

    @property
    def errors(self) -> Vector:
        """(n,): judge − people."""
        return self.judge - self.people

    def only(self, chosen: Sequence[bool] | NDArray[np.bool_]) -> Labelled:
        """The rows at which `chosen`, (n,), is true."""
        kept = np.asarray(chosen, dtype=bool)
        return Labelled(
            self.people[kept],
            self.judge[kept],
            self.clusters[kept],
            self.lengths[kept],
            self.places[kept],
            {cut: names[kept] for cut, names in self.slices.items()},
        )


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """Rows that the judge alone scored: its scores and their clusters, (N,)."""

    judge: Vector
    clusters: Names
