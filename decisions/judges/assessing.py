"""What a judge is worth beside people: corrected mean, agreement, biases, and reasons against it. PURE."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from decisions.judges.agreement import agree
from decisions.judges.bias import SliceBias, find_length_bias, find_place_bias, find_slice_bias
from decisions.judges.scored import Labelled, Unlabelled
from models_registry.statistics.intervals import Interval, clustered_mean, clustered_slope, p_value
from models_registry.statistics.prediction_powered import correct_mean

LEAST_LABELS = 100
"""Simulated (`benchmarks.judges`): from here on the corrected interval covers the truth in at least 93 % of draws."""
LEAST_UNITS = 30
"""Clusters among the labels: with fewer a cluster-robust interval is too narrow (Cameron & Miller 2015, section VI)."""
LEAST_OTHERWISE = 10
"""Labels that differ from the commonest one: with fewer a mean is not near enough to normal for its interval."""
LEAST_ALPHA = 0.667
"""Krippendorff, "Content Analysis", 2004, chapter 11: below it not even tentative conclusions."""
SELECTED_LEVEL = 0.01
"""Of the test whether labelled rows are like the rest. Daily at most, as the test of drift."""


class TooFewLabels(Exception):
    """There is no number. `reasons`: each with what there is and what is needed."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__(" ".join(reasons))
        self.reasons = reasons


class Assessment(msgspec.Struct, frozen=True):
    """A judge beside people, over `scores` rows of which `labels` have people's word; these lie in `units` clusters.

    `corrected`, `labels_only`, `judged`: the mean that people would give all rows, by both, by labels alone, and as the
    judge has it; `tuning`: λ. `alpha`: Krippendorff's. `bias`: the mean error, judge − people. `by_length`: growth of
    the error when the length doubles; `by_place`: error of what stood first minus the rest's; None with too little to
    compare. `selected`: the judge's mean over labelled rows minus that over the others, 0 where people labelled at
    random.
    """

    scores: int
    labels: int
    units: int
    corrected: Interval
    labels_only: Interval
    judged: Interval
    tuning: float
    alpha: Interval
    bias: Interval
    selected: Interval
    by_length: Interval | None
    by_place: Interval | None
    by_slice: tuple[SliceBias, ...]


def assess_judge(labelled: Labelled, unlabelled: Unlabelled) -> Assessment:
    """Raises TooFewLabels."""
    if reasons := find_missing(labelled, unlabelled):
        raise TooFewLabels(reasons)
    mean = correct_mean(
        labelled.people,
        labelled.judge,
        unlabelled.judge,
        clusters=labelled.clusters,
        unlabelled_clusters=unlabelled.clusters,
    )
    alpha = agree(labelled.people, labelled.judge, labelled.clusters)
    assert alpha is not None  # LEAST_OTHERWISE labels differ from the others
    return Assessment(
        scores=labelled.people.size + unlabelled.judge.size,
        labels=labelled.people.size,
        units=mean.corrected.clusters,
        corrected=mean.corrected,
        labels_only=mean.labels_only,
        judged=mean.judged,
        tuning=mean.tuning,
        alpha=alpha,
        bias=clustered_mean(labelled.errors, labelled.clusters),
        selected=_find_selection(labelled, unlabelled),
        by_length=find_length_bias(labelled),
        by_place=find_place_bias(labelled),
        by_slice=find_slice_bias(labelled),
    )


def find_missing(labelled: Labelled, unlabelled: Unlabelled) -> tuple[str, ...]:
    """What is missing before a number can be given; empty where nothing is."""
    labels, units = labelled.people.size, int(np.unique(labelled.clusters).size)
    reasons = []
    if labels < LEAST_LABELS:
        reasons.append(f"{labels} scored decisions have a label, {LEAST_LABELS} are needed.")
    elif units < LEAST_UNITS:
        reasons.append(f"The labels belong to {units} units; {LEAST_UNITS} are needed.")
    else:
        commonest = int(np.unique(labelled.people, return_counts=True)[1].max())
        if labels - commonest < LEAST_OTHERWISE:
            reasons.append(
                f"{commonest} of {labels} labels are the same; at least {LEAST_OTHERWISE} others are needed."
            )
    if not unlabelled.judge.size:
        reasons.append("The judge has scored no decision without a label.")
    return tuple(reasons)


def find_objections(found: Assessment) -> tuple[str, ...]:
    """Why nothing may rest on the judge alone; empty where it may."""
    reasons = []
    if found.alpha.low < LEAST_ALPHA:
        low = f"{found.alpha.low:.2f}" if math.isfinite(found.alpha.low) else "anything"
        reasons.append(
            f"It agrees too little with people: α is {found.alpha.mean:.2f}, at least {low}; "
            f"the lower end must reach {LEAST_ALPHA}."
        )
    if p_value(found.selected) < SELECTED_LEVEL:
        reasons.append(
            "The labelled decisions are not a random sample: the judge scores them "
            f"{found.selected.mean:+.3f} compared with the others. Label from a queue in random order."
        )
    return tuple(reasons)


def find_warnings(found: Assessment) -> tuple[str, ...]:
    """Biases that are more than chance, each a sentence."""
    told = []
    if _is_clear(found.bias):
        told.append(f"Its scores differ from people's by {found.bias.mean:+.3f}.")
    if found.by_length is not None and _is_clear(found.by_length):
        told.append(
            f"When the length doubles, its scores change by {found.by_length.mean:+.3f} compared with people's."
        )
    if found.by_place is not None and _is_clear(found.by_place):
        told.append(f"The first option gets {found.by_place.mean:+.3f} compared with later ones.")
    told += [
        f"In {one.cut} {one.part} its scores differ from people's by {one.error.mean:+.3f}, elsewhere by "
        f"{one.error.mean - one.apart.mean:+.3f}."
        for one in found.by_slice
        if one.differs
    ]
    return tuple(told)


def _find_selection(labelled: Labelled, unlabelled: Unlabelled) -> Interval:
    return clustered_slope(
        np.concatenate([labelled.judge, unlabelled.judge]),
        np.repeat([1.0, 0.0], [labelled.judge.size, unlabelled.judge.size]),
        np.concatenate([labelled.clusters, unlabelled.clusters]),
    )


def _is_clear(found: Interval) -> bool:
    return not found.low <= 0.0 <= found.high
