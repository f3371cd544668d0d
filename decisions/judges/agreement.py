"""How far a judge and people agree, with an interval. PURE."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from models_registry.statistics.intervals import Interval

Vector = NDArray[np.float64]


def agree(people: Vector, judge: Vector, clusters: NDArray[np.generic], confidence: float = 0.95) -> Interval | None:
    """Krippendorff's α of two observers of numbers, with the interval of a jackknife that leaves out whole clusters.

    people, judge: (n,), what each said of the same rows. clusters: (n,). It is `labelling.alpha.interval_alpha` of the
    n pairs, from sums, with v the 2n values:

        α = 1 - (2n - 1) Σ (people - judge)² / (2n Σ v² - (Σ v)²)
        se² = (G - 1) / G · Σ_g (α_(-g) - avg α_(-g))²,   α ± t_{G-1} · se, at most 1

    Efron & Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 11. None where α is not defined because all
    values are the same, or would be without one of the clusters.
    """
    _, group = np.unique(clusters, return_inverse=True)
    count = int(group.max()) + 1
    parts = [np.ones_like(people), (people - judge) ** 2, people**2 + judge**2, people + judge]
    by_cluster = np.stack([np.bincount(group, weights=part, minlength=count) for part in parts])
    whole = by_cluster.sum(axis=1)
    alpha = _alpha(whole)
    if math.isnan(alpha):
        return None
    if count < 2:
        return Interval(alpha, -math.inf, math.inf, people.size, count)
    without = np.array([_alpha(rest) for rest in (whole[:, None] - by_cluster).T])
    if np.isnan(without).any():
        return None
    error = math.sqrt((count - 1) / count * float(((without - without.mean()) ** 2).sum()))
    reach = float(stdtrit(count - 1, 0.5 + confidence / 2.0)) * error
    return Interval(alpha, alpha - reach, min(1.0, alpha + reach), people.size, count)


def _alpha(sums: Vector) -> float:
    """From (n, Σ (people − judge)², Σ v², Σ v); NaN where all values are the same."""
    n, differences, squares, total = (float(one) for one in sums)
    expected = 2.0 * n * squares - total * total
    if expected <= 1e-9 * max(squares, 1.0):
        return math.nan
    return 1.0 - (2.0 * n - 1.0) * differences / expected
