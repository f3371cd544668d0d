"""Intervals: clustered means and paired differences, shares, and the experiment's display interval.

Evaluations of trained models, the pages and the demo's result call these. None of them decides a promotion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtr, stdtrit

DISPLAY_MIN_UNITS_PER_ARM = 50
DISPLAY_PLAN = 5000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its interval, in the values' own units, over n values in `clusters` independent groups.

    Fewer than two clusters say nothing about spread: low is then -inf and high is inf.
    """

    mean: float
    low: float
    high: float
    n: int
    clusters: int

    def within(self, least: float, most: float) -> Interval:
        """The same 95 % interval of values that lie in [least, most], with its ends inside.

        Clusters that are all alike have no spread, yet the next one may differ. Of all clusters a share of up to
        u = z² / (G + z²) may then be as different as a value can be, which is Wilson's end for 0 of G clusters:

            mean - u (mean - least)  to  mean + u (most - mean)
        """
        low, high = self.low, self.high
        if high - low <= 1e-12 * (most - least):
            unseen = wilson_interval(0, self.clusters).high
            low, high = self.mean - unseen * (self.mean - least), self.mean + unseen * (most - self.mean)
        return replace(self, low=max(least, low), high=min(most, high))


def clustered_mean(values: ArrayLike, clusters: ArrayLike, confidence: float = 0.95) -> Interval:
    """Mean over all values, with a cluster-robust (CR1) interval.

    values: (n,) finite. clusters: (n,) labels of any sortable type; values of one cluster may depend on each other.

        se^2 = G / (G - 1) * sum_g (sum_{i in g} (v_i - mean))^2 / n^2,   mean ± t_{G-1}(1 - a/2) * se

    Liang & Zeger 1986; Student's t with G - 1 degrees as in Cameron & Miller, "A practitioner's guide to
    cluster-robust inference", 2015. Raises ValueError when empty, of unequal lengths, or not finite.
    """
    value = np.asarray(values, dtype=np.float64)
    label = np.asarray(clusters)
    if value.ndim != 1 or label.shape != value.shape:
        raise ValueError(f"values {value.shape} and clusters {label.shape} must both have the shape (n,)")
    if value.size == 0 or not np.isfinite(value).all():
        raise ValueError("values must be finite and at least one")
    _check_confidence(confidence)
    _, group = np.unique(label, return_inverse=True)
    count = int(group.max()) + 1
    mean = float(value.mean())
    if count < 2:
        return Interval(mean, -math.inf, math.inf, value.size, count)
    sums = np.bincount(group, weights=value - mean, minlength=count)
    error = math.sqrt(count / (count - 1) * float((sums**2).sum())) / value.size
    reach = float(stdtrit(count - 1, 0.5 + confidence / 2.0)) * error
    return Interval(mean, mean - reach, mean + reach, value.size, count)


def paired_difference(a: ArrayLike, b: ArrayLike, clusters: ArrayLike, confidence: float = 0.95) -> Interval:
    """Mean of a - b over the same inputs, with the cluster-robust interval of `clustered_mean`.

    a, b: (n,), position i the same held-out input under each model. Raises ValueError as `clustered_mean` does.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"a {first.shape} and b {second.shape} must be paired")
    return clustered_mean(first - second, clusters, confidence)


def clustered_slope(values: ArrayLike, at: ArrayLike, clusters: ArrayLike, confidence: float = 0.95) -> Interval:
    """Least-squares slope of the values over `at`, with a cluster-robust (CR1) interval.

    values, at: (n,) finite. Where `at` is 0 or 1 the slope is the difference of the means at 1 and at 0. clusters: (n,)
    labels, as of `clustered_mean`.

        slope = sum_i x_i v_i / sum_i x_i^2,   x = at - avg(at),   e = v - avg(v) - slope x
        se^2 = G / (G - 1) * (n - 1) / (n - 2) * sum_g (sum_{i in g} x_i e_i)^2 / (sum_i x_i^2)^2

    with t_{G-1}; sources as there. Its `mean` is the slope. Raises ValueError as `clustered_mean` does, below three
    values, and where `at` is the same for all.
    """
    value, place = np.asarray(values, dtype=np.float64), np.asarray(at, dtype=np.float64)
    label = np.asarray(clusters)
    if value.ndim != 1 or not value.shape == place.shape == label.shape:
        raise ValueError(f"values {value.shape}, at {place.shape} and clusters {label.shape} must have one shape (n,)")
    if value.size < 3 or not (np.isfinite(value).all() and np.isfinite(place).all()):
        raise ValueError("values and places must be finite and at least three")
    _check_confidence(confidence)
    x = place - place.mean()
    square = float(x @ x)
    if square == 0.0:
        raise ValueError("a slope needs two different places")
    slope = float(x @ value) / square
    rest = x * (value - value.mean() - slope * x)
    _, group = np.unique(label, return_inverse=True)
    count = int(group.max()) + 1
    if count < 2:
        return Interval(slope, -math.inf, math.inf, value.size, count)
    sums = np.bincount(group, weights=rest, minlength=count)
    scale = count / (count - 1) * (value.size - 1) / (value.size - 2)
    error = math.sqrt(scale * float((sums**2).sum())) / square
    reach = float(stdtrit(count - 1, 0.5 + confidence / 2.0)) * error
    return Interval(slope, slope - reach, slope + reach, value.size, count)


def p_value(found: Interval, confidence: float = 0.95) -> float:
    """Two-sided p-value of "the mean is 0", from an interval of `clustered_mean`, `paired_difference` or
    `clustered_slope` that was made with this confidence. 1 where the interval is infinite."""
    _check_confidence(confidence)
    if found.clusters < 2:
        return 1.0
    reach = found.high - found.mean
    if reach == 0.0:
        return 1.0 if found.mean == 0.0 else 0.0
    t = abs(found.mean) / reach * float(stdtrit(found.clusters - 1, 0.5 + confidence / 2.0))
    return 2.0 * float(stdtr(found.clusters - 1, -t))


def adjust_by_holm(p_values: Sequence[float]) -> list[float]:
    """p-values that hold for all of them together, in the given order: of the sorted ones max_{j <= i} (m - j + 1) p_j,
    at most 1. Holm, "A simple sequentially rejective multiple test procedure", 1979."""
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def wilson_interval(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a share of n independent trials, inside [0, 1]; (0, 1) wide when n is 0.

        (s + z²/2) / (n + z²)  ±  z / (n + z²) · sqrt(s (n - s) / n + z²/4)

    Wilson 1927. Raises ValueError unless 0 <= successes <= n.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"successes must lie in [0, n], got {successes} of {n}")
    _check_confidence(confidence)
    if n == 0:
        return Interval(math.nan, 0.0, 1.0, 0, 0)
    z = float(ndtri(0.5 + confidence / 2.0))
    centre = (successes + z * z / 2.0) / (n + z * z)
    reach = z / (n + z * z) * math.sqrt(successes * (n - successes) / n + z * z / 4.0)
    mean = successes / n
    # Rounding may put an end a hair inside the share itself at 0 and at n.
    return Interval(mean, max(0.0, min(mean, centre - reach)), min(1.0, max(mean, centre + reach)), n, n)


def share_interval(hits: ArrayLike, clusters: ArrayLike | None = None) -> Interval:
    """95 % interval of a share of 0/1 hits, (n,): Wilson's where each is a cluster of its own, as without `clusters`,
    cluster-robust within [0, 1] otherwise."""
    hit = np.asarray(hits, dtype=np.float64)
    if not np.isin(hit, (0.0, 1.0)).all():
        raise ValueError("hits must be 0 or 1")
    if clusters is None or np.unique(np.asarray(clusters)).size == hit.size:
        return wilson_interval(int(hit.sum()), hit.size)
    return clustered_mean(hit, clusters).within(0.0, 1.0)


def display_interval(
    *,
    units: int,
    treated: int,
    contrasts: float,
    squares: float,
    scale: float = 1.0,
    alpha: float = 0.05,
    plan: int = DISPLAY_PLAN,
) -> Interval | None:
    """Asymptotic confidence sequence of the difference treatment - control, for display at any time.

    units, treated, contrasts, squares: of an `e_process.Past`, n units of which so many were treated, and the sums of
    x_i and x_i². scale: what a contrast is multiplied with to be in the outcome's own units. plan: the number of units
    at which it is tightest.

        mean ± s · sqrt(2 (nρ² + 1) / (n²ρ²) · ln(sqrt(nρ² + 1) / α)),   ρ² = (−2 ln α + ln(1 − 2 ln α)) / plan

    Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas, "Time-uniform central limit theory and asymptotic confidence
    sequences", Annals of Statistics 2024. None below 50 units in either arm, where it is not yet trustworthy.
    Raises ValueError for alpha not in (0, 1), plan below 1, or more treated than units.
    """
    if not 0.0 < alpha < 1.0 or plan < 1:
        raise ValueError("alpha must lie in (0, 1) and plan be at least 1")
    if not 0 <= treated <= units:
        raise ValueError(f"treated must lie in [0, units], got {treated} of {units}")
    if min(treated, units - treated) < DISPLAY_MIN_UNITS_PER_ARM:
        return None
    n, mean = units, contrasts / units
    deviation = math.sqrt(max(squares - n * mean * mean, 0.0) / (n - 1.0))
    rho2 = (-2.0 * math.log(alpha) + math.log(1.0 - 2.0 * math.log(alpha))) / plan
    scaled = n * rho2 + 1.0
    reach = deviation * math.sqrt(2.0 * scaled / (n * n * rho2) * math.log(math.sqrt(scaled) / alpha))
    return Interval(scale * mean, scale * (mean - reach), scale * (mean + reach), n, n)


def _check_confidence(confidence: float) -> None:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence!r}")
