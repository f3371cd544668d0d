"""Intervals: coverage where values depend on each other, known values, and the display's false wins."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_registry.statistics.e_process import run_e_process
from models_registry.statistics.intervals import (
    adjust_by_holm,
    clustered_mean,
    clustered_slope,
    display_interval,
    p_value,
    paired_difference,
    share_interval,
    wilson_interval,
)


def test_one_value_a_cluster_is_the_t_interval():
    from scipy.stats import ttest_1samp  # a second of imports

    values = np.random.default_rng(1).normal(size=40)
    got = clustered_mean(values, np.arange(40))
    expected = ttest_1samp(values, 0).confidence_interval()
    assert (got.low, got.high) == pytest.approx((expected.low, expected.high))
    assert (got.n, got.clusters) == (40, 40)


def test_covers_when_values_of_a_cluster_depend_on_each_other():
    rng = np.random.default_rng(2)
    covered = naive = 0
    for _ in range(400):
        clusters = np.repeat(np.arange(40), rng.integers(2, 15, 40))
        values = rng.normal(size=40)[clusters] + 0.3 * rng.normal(size=clusters.size)
        found, independent = clustered_mean(values, clusters), clustered_mean(values, np.arange(values.size))
        covered += found.low <= 0 <= found.high
        naive += independent.low <= 0 <= independent.high
    assert 0.90 <= covered / 400 <= 0.985
    assert naive / 400 < 0.8


def test_pairing_removes_what_both_models_share():
    rng = np.random.default_rng(3)
    difficulty = rng.normal(0, 3, 300)
    a, b = difficulty + 0.2 + rng.normal(0, 0.3, 300), difficulty + rng.normal(0, 0.3, 300)
    found = paired_difference(a, b, np.arange(300) // 3)
    assert found.low > 0.1 and found.high < 0.3
    assert found.clusters == 100
    assert paired_difference(b, a, np.arange(300) // 3).mean == pytest.approx(-found.mean)


def test_one_cluster_knows_nothing_of_spread():
    found = clustered_mean([1.0, 2.0], ["a", "a"])
    assert (found.low, found.high, found.mean) == (-math.inf, math.inf, 1.5)


def test_a_slope_is_that_of_statsmodels():
    """OLS of statsmodels 0.15.0, cov_type="cluster", use_correction and use_t."""
    values = [-0.1, 0.2, -0.3, -0.6, 0.3, 0.6, -0.2, 0.1, -0.1, -0.5]
    found = clustered_slope(values, range(1, 11), [0, 0, 1, 1, 1, 2, 2, 3, 3, 4])
    assert (found.mean, found.low, found.high) == pytest.approx((-0.0133333, -0.1035113, 0.0768446), abs=1e-7)
    assert p_value(found) == pytest.approx(0.7024667, abs=1e-7)
    assert clustered_slope(values, range(10), ["one"] * 10).high == math.inf
    for places in ([3] * 10, [1, math.nan] * 5, [1, 2]):
        with pytest.raises(ValueError):
            clustered_slope(values, places, range(10))


def test_a_slope_over_two_places_is_a_difference():
    found = clustered_slope([1.0, 2.0, 6.0, 8.0], [0, 0, 1, 1], range(4))
    assert found.mean == pytest.approx(5.5)
    assert clustered_slope([1.0, 1.0, 2.0], [0, 0, 1], range(3)).low == pytest.approx(1.0)


def test_holms_p_values():
    """statsmodels 0.15.0, multipletests(method="holm")."""
    assert adjust_by_holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjust_by_holm([]) == []
    assert p_value(clustered_mean([0.0, 0.0], [1, 2])) == 1.0
    assert p_value(clustered_mean([1.0, 1.0], [1, 2])) == 0.0
    assert p_value(clustered_mean([1.0, 1.0], [1, 1])) == 1.0


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.integers(0, 5)), min_size=1, max_size=40))
def test_the_mean_is_inside_and_order_does_not_matter(rows):
    values, clusters = [v for v, _ in rows], [c for _, c in rows]
    found = clustered_mean(values, clusters)
    assert found.low <= found.mean <= found.high
    back = clustered_mean(values[::-1], clusters[::-1])
    assert back.mean == pytest.approx(found.mean, abs=1e-9)
    assert back.high == pytest.approx(found.high, rel=1e-6, abs=1e-9)


def test_wilson_values():
    found = wilson_interval(8, 10)
    assert (found.low, found.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson_interval(0, 20).low == 0.0 and wilson_interval(20, 20).high == 1.0
    assert (wilson_interval(0, 0).low, wilson_interval(0, 0).high) == (0.0, 1.0)


@given(n=st.integers(1, 10_000), data=st.data())
def test_wilson_holds_the_share_inside_unit_range(n, data):
    found = wilson_interval(data.draw(st.integers(0, n)), n)
    assert 0.0 <= found.low <= found.mean <= found.high <= 1.0


def test_shares_by_cluster_stay_in_range():
    found = share_interval([1, 1, 1, 1, 0, 1], [1, 1, 2, 2, 3, 3])
    assert found.high == 1.0 and found.clusters == 3
    assert share_interval([1, 0, 1]) == wilson_interval(2, 3)
    with pytest.raises(ValueError, match="0 or 1"):
        share_interval([0.5])


def test_clusters_that_are_all_alike_are_not_certain():
    pairs = np.repeat(np.arange(10), 2)
    solved, unsolved = np.ones(20), np.zeros(20)
    none, ten = wilson_interval(0, 10), wilson_interval(10, 10)
    assert ends(share_interval(solved, pairs)) == pytest.approx(ends(ten))
    assert ends(share_interval(unsolved, pairs)) == pytest.approx(ends(none))
    same = paired_difference(solved, solved, pairs).within(-1.0, 1.0)
    assert ends(same) == pytest.approx((-none.high, none.high))
    better = paired_difference(solved, unsolved, pairs).within(-1.0, 1.0)
    assert ends(better) == pytest.approx((1.0 - 2.0 * none.high, 1.0))
    three = paired_difference([1.0] * 3, [0.0] * 3, range(3)).within(-1.0, 1.0)
    assert three.low < 0.0 < three.high  # three templates show nothing
    spread = paired_difference([1.0, 0.0, 1.0], [0.0, 0.0, 0.0], range(3))
    assert spread.within(-9.0, 9.0) == spread


def ends(found):
    return found.low, found.high


def interval_of(x, arms, **fields):
    return display_interval(
        units=len(x), treated=int(np.sum(arms)), contrasts=float(np.sum(x)), squares=float(np.square(x).sum()), **fields
    )


def test_the_display_interval_rarely_loses_the_truth_at_any_look():
    rng = np.random.default_rng(4)
    lost = 0
    for _ in range(200):
        arms = (rng.random(3000) < 0.5).astype(int)
        outcomes = (rng.random(3000) < 0.4 + 0.05 * arms).astype(float)
        x = run_e_process(arms, 0.5, outcomes).contrasts
        looks = (interval_of(x[:n], arms[:n]) for n in range(150, 3001, 150))
        lost += any(not (found.low <= 0.05 <= found.high) for found in looks if found)
    assert lost / 200 <= 0.05


def test_the_display_interval_waits_for_fifty_units_an_arm():
    x, arms = np.random.default_rng(5).normal(size=120), np.r_[np.zeros(71), np.ones(49)]
    assert interval_of(x, arms) is None
    assert interval_of(np.r_[x, 0.1], np.r_[arms, 1]) is not None


@pytest.mark.parametrize(
    "call",
    [
        lambda: clustered_mean([], []),
        lambda: clustered_mean([1.0], [1, 2]),
        lambda: clustered_mean([math.nan], [1]),
        lambda: clustered_mean([1.0], [1], confidence=1.0),
        lambda: paired_difference([1.0], [1.0, 2.0], [1]),
        lambda: wilson_interval(3, 2),
        lambda: display_interval(units=1, treated=2, contrasts=0.0, squares=0.0),
        lambda: display_interval(units=2, treated=1, contrasts=0.0, squares=0.0, alpha=0.0),
    ],
)
def test_impossible_input_is_refused(call):
    with pytest.raises(ValueError):
        call()


def test_the_display_interval_is_that_of_its_formula_and_in_the_outcomes_own_units():
    rng = np.random.default_rng(8)
    arms, x = np.tile([0, 1], 200), rng.normal(0.1, 1.0, 400)
    found, scaled = interval_of(x, arms), interval_of(x, arms, scale=0.45)
    rho2 = (-2 * math.log(0.05) + math.log(1 - 2 * math.log(0.05))) / 5000
    m = 400 * rho2 + 1
    reach = x.std(ddof=1) * math.sqrt(2 * m / (400**2 * rho2) * math.log(math.sqrt(m) / 0.05))
    assert [found.mean, found.low, found.high] == pytest.approx([x.mean(), x.mean() - reach, x.mean() + reach])
    assert [scaled.low, scaled.high] == pytest.approx([0.45 * found.low, 0.45 * found.high])
