"""The difference between served and held units, from sums alone."""

import numpy as np
import pytest

from models_registry.statistics.holdouts import ArmSums, compare_arms
from models_registry.statistics.intervals import display_interval


def sums(outcomes):
    return ArmSums(len(outcomes), float(outcomes.sum()), float(np.square(outcomes).sum()))


def test_sums_give_what_the_contrasts_of_all_units_give():
    rng = np.random.default_rng(3)
    held = rng.random(4000) < 0.1
    outcomes = np.where(held, rng.beta(4, 4, 4000), rng.beta(5, 3, 4000))
    found = compare_arms(sums(outcomes[~held]), sums(outcomes[held]))
    p = (~held).mean()
    x = (~held - p) / (p * (1 - p)) * (outcomes - outcomes.mean())
    whole = display_interval(units=4000, treated=(~held).sum(), contrasts=x.sum(), squares=np.square(x).sum())
    assert (found.mean, found.low, found.high) == pytest.approx((whole.mean, whole.low, whole.high))
    assert found.mean == pytest.approx(outcomes[~held].mean() - outcomes[held].mean())
    assert 0 < found.low < 0.125 < found.high
    assert compare_arms(sums(outcomes[~held]), sums(outcomes[held][:49])) is None
    assert compare_arms(ArmSums(), sums(outcomes)) is None


def test_no_difference_is_rarely_taken_for_one():
    wrong = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        held, outcomes = rng.random(2000) < 0.2, rng.random(2000)
        found = compare_arms(sums(outcomes[~held]), sums(outcomes[held]))
        wrong += not found.low <= 0 <= found.high
    assert wrong <= 15
