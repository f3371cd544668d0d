"""Compares what the same decisions are worth by two reward specs. PURE.

`decisions.rewards.what_if` values the decisions and keeps the comparison; pages and the API show it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from decisions.rewards.valuing import Valued
from models_registry.statistics.intervals import clustered_mean

BINS = 25
"""Of the histograms, over rewards from 0 to 1."""
MOVERS = 10
"""Decisions that are named for moving most."""
MOST_VERSIONS = 12
"""Versions with the most decisions are compared; fewer decisions say too little."""


@dataclass(frozen=True, slots=True)
class Case:
    """One decision by both specs. `actor`: the model version or policy that decided. `cluster`: decisions of one unit
    may depend on each other."""

    decision: str
    actor: str
    cluster: str
    before: Valued
    after: Valued


class Measured(msgspec.Struct, frozen=True):
    """A mean with its 95 % interval over n decisions; low and high are None where fewer than two units say nothing
    about spread."""

    mean: float
    low: float | None
    high: float | None
    n: int


class Side(msgspec.Struct, frozen=True):
    """One of the two specs. `histogram`: decisions in BINS bins of rewards from 0 to 1. `failures`: decisions by the
    component that fails, the most frequent first; not the reason, which may quote what is to be erased one day."""

    valued: int
    failed: int
    reward: Measured | None
    histogram: tuple[int, ...]
    failures: tuple[tuple[str, int], ...]


class Mover(msgspec.Struct, frozen=True):
    """A decision whose rank changed much. Rewards are in [0, 1], ranks are shares of the decisions that are below."""

    decision: str
    before: float
    after: float
    rank_before: float
    rank_after: float


class VersionLine(msgspec.Struct, frozen=True):
    """Who decided, over the decisions that have a reward by both specs."""

    actor: str
    before: Measured
    after: Measured


class Leader(msgspec.Struct, frozen=True):
    """The version with the largest mean; `clear` where its interval is above all others."""

    actor: str
    clear: bool


class Comparison(msgspec.Struct, frozen=True):
    """`population`: decisions that can have a reward; `sampled`: those that were valued, drawn with `seed`. `both`
    have a reward by both specs; the correlation of ranks (Spearman's ρ, by raw rewards), movers and versions are over
    them. The correlation is None where all are equal or there are fewer than two."""

    population: int
    sampled: int
    seed: int
    before: Side
    after: Side
    both: int
    changed: int
    rank_correlation: float | None
    movers: tuple[Mover, ...]
    versions: tuple[VersionLine, ...]
    leader_before: Leader | None
    leader_after: Leader | None


def compare_cases(cases: Sequence[Case], *, population: int, seed: int) -> Comparison:
    both = [case for case in cases if case.before.value is not None and case.after.value is not None]
    first = np.array([case.before.raw for case in both], dtype=np.float64)
    second = np.array([case.after.raw for case in both], dtype=np.float64)
    ranks = _rank(first), _rank(second)
    versions = _compare_versions(both)
    return Comparison(
        population=population,
        sampled=len(cases),
        seed=seed,
        before=_side([case.before for case in cases], [case.cluster for case in cases]),
        after=_side([case.after for case in cases], [case.cluster for case in cases]),
        both=len(both),
        changed=int(np.count_nonzero(first != second)),
        rank_correlation=_spearman(*ranks),
        movers=_find_movers(both, *ranks),
        versions=versions,
        leader_before=_leader({line.actor: line.before for line in versions}),
        leader_after=_leader({line.actor: line.after for line in versions}),
    )


def _side(values: Sequence[Valued], clusters: Sequence[str]) -> Side:
    known = [(one.value, cluster) for one, cluster in zip(values, clusters, strict=True) if one.value is not None]
    failures = Counter(name for one in values for name, part in one.components.items() if "error" in part)
    rewards = np.array([value for value, _ in known], dtype=np.float64)
    counts, _ = np.histogram(rewards, bins=BINS, range=(0.0, 1.0))
    return Side(
        valued=len(known),
        failed=sum(any("error" in part for part in one.components.values()) for one in values),
        reward=_measure(rewards, [cluster for _, cluster in known]),
        histogram=tuple(int(count) for count in counts),
        failures=tuple(failures.most_common()),
    )


def _measure(values: NDArray[np.float64], clusters: Sequence[str]) -> Measured | None:
    if not len(values):
        return None
    found = clustered_mean(values, clusters)
    low, high = (bound if math.isfinite(bound) else None for bound in (found.low, found.high))
    return Measured(found.mean, low, high, found.n)


def _rank(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """From 1; equal values share the mean of their ranks. scipy's `rankdata` loads a second of modules."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    shared: NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return shared[place]


def _spearman(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    """Pearson's correlation of the mean ranks (Spearman 1904)."""
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def _find_movers(both: Sequence[Case], first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[Mover, ...]:
    size = len(both)
    order = sorted(range(size), key=lambda place: (-abs(second[place] - first[place]), both[place].decision))
    found = []
    for place in order[:MOVERS]:
        if first[place] == second[place]:
            break
        case = both[place]
        assert case.before.value is not None and case.after.value is not None
        below = ((float(ranks[place]) - 0.5) / size for ranks in (first, second))
        found.append(Mover(case.decision, case.before.value, case.after.value, *below))
    return tuple(found)


def _compare_versions(both: Sequence[Case]) -> tuple[VersionLine, ...]:
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in both:
        groups[case.actor].append(case)
    largest = sorted(groups, key=lambda actor: (-len(groups[actor]), actor))[:MOST_VERSIONS]
    lines = []
    for actor in sorted(largest):
        clusters = [case.cluster for case in groups[actor]]
        before = _measure(np.array([case.before.value for case in groups[actor]], dtype=np.float64), clusters)
        after = _measure(np.array([case.after.value for case in groups[actor]], dtype=np.float64), clusters)
        assert before is not None and after is not None
        lines.append(VersionLine(actor, before, after))
    return tuple(lines)


def _leader(measured: Mapping[str, Measured]) -> Leader | None:
    """None with fewer than two to compare."""
    if len(measured) < 2:
        return None
    best = max(measured, key=lambda actor: measured[actor].mean)
    others = [one.high for actor, one in measured.items() if actor != best]
    low = measured[best].low
    return Leader(best, low is not None and all(high is not None and low > high for high in others))
