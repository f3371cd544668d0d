"""Whether a judge errs otherwise lately than before. PURE."""

from __future__ import annotations

import msgspec
import numpy as np

from decisions.judges.scored import Labelled
from models_registry.statistics.intervals import Interval, adjust_by_holm, clustered_slope, p_value

LEAST_NEW = 50
"""Labels that are called recent, at least, and as many before them. Simulated: where a judge was wrong in 20 % of 100
old labels, 50 new ones show in 4 of 5 cases that it is wrong in 50 % now, and in 3 of 5 that it is in 45 %."""
RECENT_SHARE = 0.25
"""Of all labels, those that are called recent."""
DRIFT_LEVEL = 0.01
"""It is asked again with every calibration, daily at most: at 0.05 a sound judge would soon be switched off."""


def count_recent(labels: int) -> int:
    """How many of so many labels are called recent."""
    return max(LEAST_NEW, int(RECENT_SHARE * labels))


class Drift(msgspec.Struct, frozen=True):
    """`error`, `size`: the mean error, and its mean size, of the new labels minus those of the old. `p`: the smaller of
    both p-values, by Holm."""

    old: int
    new: int
    error: Interval
    size: Interval
    p: float

    @property
    def found(self) -> bool:
        return self.p < DRIFT_LEVEL


def find_drift(old: Labelled, new: Labelled) -> Drift | None:
    """Compares the labels of recent scores with those of earlier ones: errors, and their sizes, since a judge that errs
    more often in both directions has the same mean. None with fewer than LEAST_NEW labels on either side."""
    if min(old.people.size, new.people.size) < LEAST_NEW:
        return None
    errors = np.concatenate([old.errors, new.errors])
    recent = np.repeat([0.0, 1.0], [old.people.size, new.people.size])
    clusters = np.concatenate([old.clusters, new.clusters])
    error = clustered_slope(errors, recent, clusters)
    size = clustered_slope(np.abs(errors), recent, clusters)
    p = min(adjust_by_holm([p_value(error), p_value(size)]))
    return Drift(old.people.size, new.people.size, error, size, p)
