"""Means of any number of versions, from sums, and which of them is best. For display; none of it promotes.

The notes app's `ab-test` calls these. The versions need not have been assigned by chance: then a difference says what
was, and not what the version did. Intervals hold for one look.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from scipy.special import stdtrit

from models_registry.statistics.intervals import DISPLAY_MIN_UNITS_PER_ARM, Interval, wilson_interval


@dataclass(frozen=True, slots=True)
class Sums:
    """Over n values v in G clusters, g of which holds n_g values that add up to s_g: total = Σ s_g, squares = Σ s_g²,
    products = Σ s_g·n_g, sizes = Σ n_g²."""

    n: int
    clusters: int
    total: float
    squares: float
    products: float
    sizes: float

    @property
    def mean(self) -> float:
        """NaN of nothing."""
        return self.total / self.n if self.n else math.nan

    @property
    def error(self) -> float:
        """Standard error of the mean, cluster-robust (CR1); infinite below two clusters.

        se² = G / (G − 1) · Σ_g (s_g − n_g·mean)² / n², as `intervals.clustered_mean` has it.
        """
        if self.clusters < 2:
            return math.inf
        spread = self.squares - 2.0 * self.mean * self.products + self.mean**2 * self.sizes
        return math.sqrt(self.clusters / (self.clusters - 1) * max(spread, 0.0)) / self.n


def mean_of(sums: Sums, confidence: float = 0.95) -> Interval:
    """mean ± t_{G−1}·se; the mean is NaN, and the interval infinite, of nothing."""
    if sums.clusters < 2:
        return Interval(sums.mean, -math.inf, math.inf, sums.n, sums.clusters)
    reach = float(stdtrit(sums.clusters - 1, 0.5 + confidence / 2.0)) * sums.error
    return Interval(sums.mean, sums.mean - reach, sums.mean + reach, sums.n, sums.clusters)


def share_of(sums: Sums, confidence: float = 0.95) -> Interval:
    """As `mean_of`, of values that are 0 or 1, within [0, 1]. Where all are equal, which has no spread, Wilson's
    interval of as many values as there are clusters."""
    if sums.clusters and sums.total in (0.0, float(sums.n)):
        hits = sums.clusters if sums.total else 0
        wide = wilson_interval(hits, sums.clusters, confidence)
        return Interval(sums.mean, wide.low, wide.high, sums.n, sums.clusters)
    found = mean_of(sums, confidence)
    return Interval(found.mean, max(0.0, found.low), min(1.0, found.high), found.n, found.clusters)


@dataclass(frozen=True, slots=True)
class Best:
    """The version with the highest mean, None where there is none. `clear`: it is shown to be better than every other
    one."""

    name: str | None
    clear: bool


def find_best(means: Mapping[str, Sums], confidence: float = 0.95) -> Best:
    """Clear where the interval of the difference to every other version lies above 0, and each has 50 clusters or more.

        d ± t_df · sqrt(se_a² + se_b²),   df = min(G_a, G_b) − 1

    at the confidence of all pairs of the versions together (Bonferroni), since the best is only known afterwards. The
    versions count as independent: clusters that met two of them make that cautious where they like both or neither.
    """
    known = {name: sums for name, sums in means.items() if sums.n}
    if not known:
        return Best(None, False)
    name = max(known, key=lambda one: known[one].mean)
    pairs = sum(1 for _ in itertools.combinations(known, 2))
    if not pairs or any(sums.clusters < DISPLAY_MIN_UNITS_PER_ARM for sums in known.values()):
        return Best(name, False)
    alpha = (1.0 - confidence) / pairs

    def is_better(other: Sums) -> bool:
        best = known[name]
        reach = float(stdtrit(min(best.clusters, other.clusters) - 1, 1.0 - alpha / 2.0))
        return best.mean - other.mean > reach * math.hypot(best.error, other.error)

    return Best(name, all(is_better(sums) for one, sums in known.items() if one != name))
