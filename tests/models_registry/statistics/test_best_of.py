"""Means from sums, and the best of several."""

import numpy as np
import pytest

from models_registry.statistics.best_of import Sums, find_best, mean_of, share_of
from models_registry.statistics.intervals import clustered_mean, wilson_interval


def sums_of(values, clusters):
    groups = [values[clusters == one] for one in np.unique(clusters)]
    totals, sizes = [group.sum() for group in groups], [len(group) for group in groups]
    squares = sum(total**2 for total in totals)
    products = sum(total * size for total, size in zip(totals, sizes, strict=True))
    return Sums(len(values), len(groups), float(values.sum()), squares, products, sum(size**2 for size in sizes))


def test_sums_give_what_the_values_give():
    rng = np.random.default_rng(0)
    values, clusters = rng.normal(size=200), rng.integers(0, 30, size=200)
    found, wanted = mean_of(sums_of(values, clusters)), clustered_mean(values, clusters)
    assert (found.mean, found.low, found.high) == pytest.approx((wanted.mean, wanted.low, wanted.high))
    assert (found.n, found.clusters) == (wanted.n, wanted.clusters)
    one = mean_of(sums_of(values[:5], np.zeros(5)))
    assert (one.low, one.high) == (-np.inf, np.inf)


def test_shares_without_spread_are_still_uncertain():
    found, wide = share_of(sums_of(np.ones(20), np.arange(20) // 2)), wilson_interval(10, 10)
    assert (found.mean, found.low, found.high, found.n) == (1.0, wide.low, wide.high, 20)
    assert share_of(sums_of(np.zeros(4), np.arange(4))).low == 0.0


def test_the_best_is_clear_only_with_enough_units_and_a_difference_beyond_chance():
    def arm(mean, units, seed):
        return sums_of(np.random.default_rng(seed).normal(mean, 1, units), np.arange(units))

    assert find_best({}) == find_best({"a": Sums(0, 0, 0, 0, 0, 0)})
    assert find_best({"a": arm(1, 200, 1), "b": arm(0, 200, 2)}).clear
    assert not find_best({"a": arm(1, 40, 1), "b": arm(0, 200, 2)}).clear
    alone = find_best({"a": arm(1, 200, 1)})
    assert (alone.name, alone.clear) == ("a", False)
    # Eight versions that are all alike: the best of them is called better in at most 5 % of draws.
    wrong = sum(find_best({str(k): arm(0, 60, 100 * draw + k) for k in range(8)}).clear for draw in range(200))
    assert wrong <= 10
