"""Differences that decide nothing: cut anywhere they are the same, and all of them hold together."""

import itertools

import numpy as np
import pytest

from models_registry.statistics.exploratory import EMPTY, compare, tally_on

PARTS = ([0, 1, 7, 400], [0, 400])


def draw(rng, units=400, effect=0.0):
    arms = (rng.random(units) < 0.4).astype(int)
    return arms, np.full(units, 0.4), 300 + 25 * rng.standard_normal(units) + effect * arms


def tally(arms, shares, values, cuts):
    found = EMPTY
    for begin, end in itertools.pairwise(cuts):
        found = tally_on(found, arms[begin:end], shares[begin:end], values[begin:end])
    return found


def test_a_sequence_may_be_cut_anywhere_and_its_means_are_those_of_the_arms():
    arms, shares, values = draw(np.random.default_rng(1), effect=20.0)
    pieces, whole = (tally(arms, shares, values, cuts) for cuts in PARTS)
    assert pieces == whole and tally_on(whole, [], [], []) == whole
    assert whole.means == pytest.approx((values[arms == 0].mean(), values[arms == 1].mean()))
    found = compare(whole, 1)
    assert found.low < 20 < found.high and found.mean == pytest.approx(20, abs=8)
    assert compare(tally(arms, shares, values, [0, 60]), 1) is None  # too few units in an arm


def test_more_comparisons_make_each_interval_wider():
    found = tally(*draw(np.random.default_rng(2)), [0, 400])
    widths = [one.high - one.low for one in (compare(found, count) for count in (1, 5, 25))]
    assert widths == sorted(widths) and widths[2] > 1.1 * widths[0]
    with pytest.raises(ValueError, match="at least one"):
        compare(found, 0)


@pytest.mark.parametrize(("effect", "low", "high"), [(0.0, 0.0, 0.05), (20.0, 0.95, 1.0)])
def test_a_family_of_twenty_shows_a_real_difference_and_hardly_ever_another(effect, low, high):
    """At every 100 of 800 units, in 10 experiments with 20 measures."""
    rng, shown = np.random.default_rng(3), 0
    for _ in range(200):
        drawn, found, excluded = draw(rng, 800, effect), EMPTY, False
        for begin in range(0, 800, 100):
            found = tally_on(found, *(one[begin : begin + 100] for one in drawn))
            interval = compare(found, 20)
            excluded |= interval is not None and not interval.low <= 0 <= interval.high
        shown += excluded
    assert low <= shown / 200 <= high


def test_what_is_no_number_is_refused():
    with pytest.raises(ValueError, match="finite"):
        tally_on(EMPTY, [1], [0.5], [np.nan])
    with pytest.raises(ValueError, match="shape"):
        tally_on(EMPTY, [1, 0], [0.5], [1.0])
