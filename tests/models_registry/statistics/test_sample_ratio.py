"""The sample-ratio test: quiet on a sound split under every look, loud on a broken one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_registry.statistics.sample_ratio import PhaseCount, check_sample_ratio, compute_log_bayes_factor


def count_halts(share, runs, total=20_000, look=500):
    rng = np.random.default_rng(7)
    treated = rng.binomial(look, share, (runs, total // look)).cumsum(axis=1)
    halts = 0
    for run in treated:
        phases = ([PhaseCount(look * (i + 1) - int(k), int(k), 0.5)] for i, k in enumerate(run))
        halts += any(check_sample_ratio(phase).mismatch for phase in phases)
    return halts


def test_a_sound_split_is_left_alone_and_a_broken_one_found():
    assert count_halts(0.5, 300) <= 2
    assert count_halts(0.52, 100) >= 85


@given(control=st.integers(0, 5000), treatment=st.integers(0, 5000), share=st.floats(0.05, 0.95))
def test_is_the_ratio_of_two_probabilities(control, treatment, share):
    from scipy.stats import betabinom, binom  # a second of imports

    n = control + treatment
    expected = betabinom.logpmf(treatment, n, 1000 * share, 1000 * (1 - share)) - binom.logpmf(treatment, n, share)
    assert compute_log_bayes_factor(control, treatment, share) == pytest.approx(expected, abs=1e-5, rel=1e-6)


def test_phases_are_judged_by_their_own_share():
    phases = [PhaseCount(950, 50, 0.05), PhaseCount(500, 500, 0.5)]
    assert not check_sample_ratio(phases).mismatch
    assert check_sample_ratio([PhaseCount(1450, 550, 0.5)]).mismatch
    assert check_sample_ratio([]).log_bayes_factor == 0.0
    assert math.isclose(compute_log_bayes_factor(0, 0, 0.3), 0.0, abs_tol=1e-9)


@pytest.mark.parametrize("bad", [(-1, 1, 0.5), (1, 1, 0.0), (1, 1, 1.0), (1, 1, math.nan)])
def test_impossible_counts_are_refused(bad):
    with pytest.raises(ValueError):
        compute_log_bayes_factor(*bad)
