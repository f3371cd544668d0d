"""The mean of people's labels, made narrower by a judge that scored far more rows than people labelled.

`decisions.judges` calls it. A judge may be wrong in any way: its errors are measured where both spoke, and taken off
where it spoke alone. What has to hold is that the labelled rows are a random part of all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from models_registry.statistics.intervals import Interval, clustered_mean

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """`corrected`: the mean of the label over all rows; `labels_only`: the same from the labels alone. `judged`: the
    mean of the judge's scores, which estimates another thing as long as the judge is biased. `tuning`: λ."""

    corrected: Interval
    labels_only: Interval
    judged: Interval
    tuning: float


def correct_mean(
    labels: ArrayLike,
    scores: ArrayLike,
    unlabelled: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    unlabelled_clusters: ArrayLike | None = None,
    tuning: float | None = None,
    confidence: float = 0.95,
) -> CorrectedMean:
    """Prediction-powered mean with tuned λ (PPI++), and a cluster-robust interval.

    labels Y, scores f: (n,), what people and the judge said of the same rows. unlabelled f~: (N,), the judge's scores
    of the other rows. clusters: (n,) and (N,), labels of one sortable type; rows of one cluster may depend on each
    other, also a labelled one on an unlabelled one. None: every row is a cluster.

        mean = avg(Y) + λ (avg(f~) - avg(f))
        A_g = sum_{i in g} (Y_i - avg(Y)) / n
        B_g = sum_{i in g} (f_i - avg(f)) / n - sum_{j in g} (f~_j - avg(f~)) / N
        se^2 = G / (G - 1) * sum_g (A_g - λ B_g)^2,   mean ± t_{G-1} * se,   λ = sum_g A_g B_g / sum_g B_g^2

    G: the labelled clusters. With rows as clusters λ is Cov(Y, f) / (Var(f) + n/N Var(f~)), Example 6.1 of the paper.
    λ minimises se² and λ = 0 is labels alone, so a tuned interval is never wider than `labels_only`. λ has no bounds:
    scores on another scale, or the other way round, are as good. Both n and N must be at least 1; with one labelled
    cluster the interval is infinite.

    Angelopoulos, Duchi & Zrnic, "PPI++: Efficient prediction-powered inference", 2023 (arXiv 2311.01453). Raises
    ValueError for other shapes, values that are not finite, or clusters of one part only.
    """
    label, score, other = (np.asarray(given, dtype=np.float64) for given in (labels, scores, unlabelled))
    if label.ndim != 1 or score.shape != label.shape or other.ndim != 1:
        raise ValueError(f"labels {label.shape} and scores {score.shape} must have one shape (n,), unlabelled (N,)")
    if not label.size or not other.size:
        raise ValueError("labels and unlabelled must each have at least one row")
    if not all(np.isfinite(part).all() for part in (label, score, other)):
        raise ValueError("labels and scores must be finite")
    group = _groups(label.size, other.size, clusters, unlabelled_clusters)
    count = int(group.max()) + 1
    mine, rest = group[: label.size], group[label.size :]
    a = _sums(mine, label - label.mean(), count) / label.size
    b = _sums(mine, score - score.mean(), count) / label.size - _sums(rest, other - other.mean(), count) / other.size
    spread = float(b @ b)
    if tuning is None:
        tuning = float(a @ b) / spread if spread > 0.0 else 0.0
    mean = float(label.mean() + tuning * (other.mean() - score.mean()))
    labelled = int(np.unique(mine).size)
    reach = math.inf
    if labelled > 1:
        error = math.sqrt(labelled / (labelled - 1) * float(((a - tuning * b) ** 2).sum()))
        reach = float(stdtrit(labelled - 1, 0.5 + confidence / 2.0)) * error
    return CorrectedMean(
        corrected=Interval(mean, mean - reach, mean + reach, label.size, labelled),
        labels_only=clustered_mean(label, mine, confidence),
        judged=clustered_mean(np.concatenate([score, other]), group, confidence),
        tuning=tuning,
    )


def _sums(group: NDArray[np.intp], values: Vector, count: int) -> Vector:
    return np.bincount(group, weights=values, minlength=count).astype(np.float64)


def _groups(n: int, others: int, clusters: ArrayLike | None, unlabelled: ArrayLike | None) -> NDArray[np.intp]:
    """(n + N,): the number of each row's cluster, from 0."""
    if clusters is None and unlabelled is None:
        return np.arange(n + others)
    if clusters is None or unlabelled is None:
        raise ValueError("clusters must be given of both parts or of none")
    first, second = np.asarray(clusters), np.asarray(unlabelled)
    if first.shape != (n,) or second.shape != (others,):
        raise ValueError(f"clusters {first.shape} and {second.shape} must be ({n},) and ({others},)")
    group: NDArray[np.intp] = np.unique(np.concatenate([first, second]), return_inverse=True)[1]
    return group
