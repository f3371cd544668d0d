"""Whether a judge's errors follow the length, the place or the part of what it judges. PURE.

An error is the judge's score minus people's of the same row. A judge that is too generous everywhere has a bias that
the corrected mean takes off; one whose generosity depends on length or on who answered also ranks wrongly.
"""

from __future__ import annotations

import msgspec
import numpy as np

from decisions.judges.scored import Labelled
from models_registry.statistics.intervals import Interval, adjust_by_holm, clustered_mean, clustered_slope, p_value

LEAST_IN_PART = 20
"""Labels of a slice, and of either side of a comparison."""
LEAST_UNITS_IN_PART = 10
"""Clusters that they lie in: with fewer a cluster-robust interval says little (Cameron & Miller 2015, section VI)."""
MOST_SLICES = 40
SURE = 0.95


class SliceBias(msgspec.Struct, frozen=True):
    """The errors within one part of a cut, such as one model version.

    `error`: their mean; its interval holds for all slices together (Bonferroni). `apart`: that mean minus the mean of
    the cut's other rows, with an interval for itself. `p`: of "the part is like the others", by Holm for all slices.
    """

    cut: str
    part: str
    labels: int
    error: Interval
    apart: Interval
    p: float

    @property
    def differs(self) -> bool:
        return self.p < 1 - SURE


def find_length_bias(rows: Labelled) -> Interval | None:
    """By how much the error grows when the length doubles: the slope over log2(1 + characters). None where too few rows
    are longer, or too few shorter, than the median."""
    texts = rows.only(~np.isnan(rows.lengths))
    if not texts.people.size:
        return None
    longer = texts.lengths > np.median(texts.lengths)
    if not (_is_enough(texts.only(longer)) and _is_enough(texts.only(~longer))):
        return None
    return clustered_slope(texts.errors, np.log2(1.0 + texts.lengths), texts.clusters)


def find_place_bias(rows: Labelled) -> Interval | None:
    """The mean error of what stood first minus that of what stood later. None with too few of either."""
    placed = rows.only(~np.isnan(rows.places))
    first = placed.places == 0
    if not (_is_enough(placed.only(first)) and _is_enough(placed.only(~first))):
        return None
    return clustered_slope(placed.errors, first.astype(np.float64), placed.clusters)


def find_slice_bias(rows: Labelled) -> tuple[SliceBias, ...]:
    """Of every part with a name and enough labels in it and outside it, the largest first, at most MOST_SLICES."""
    sized = [
        (cut, str(part), names == part)
        for cut, names in rows.slices.items()
        for part in np.unique(names)
        if part and _is_enough(rows.only(names == part)) and _is_enough(rows.only(names != part))
    ]
    chosen = sorted(sized, key=lambda one: (-int(one[2].sum()), one[0], one[1]))[:MOST_SLICES]
    apart = [clustered_slope(rows.errors, inside.astype(np.float64), rows.clusters) for _, _, inside in chosen]
    adjusted = adjust_by_holm([p_value(one) for one in apart])
    made = []
    for (cut, part, inside), difference, p in zip(chosen, apart, adjusted, strict=True):
        found = rows.only(inside)
        error = clustered_mean(found.errors, found.clusters, 1 - (1 - SURE) / len(chosen))
        made.append(SliceBias(cut, part, int(inside.sum()), error, difference, p))
    return tuple(made)


def _is_enough(rows: Labelled) -> bool:
    return rows.people.size >= LEAST_IN_PART and np.unique(rows.clusters).size >= LEAST_UNITS_IN_PART
