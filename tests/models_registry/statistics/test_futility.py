"""The futility test: the formula against a plain loop, what it costs at its null, and that it can be cut anywhere."""

import math

import numpy as np
import pytest

from models_registry.statistics.e_process import NOTHING, run_e_process
from models_registry.statistics.futility import run_futility

EFFECT = 0.05


def reference(contrasts, probabilities, effect):
    """The definition, one unit after another."""
    log_e, total, squares, mean, spread = 0.0, 0.0, 1.0, 0.0, 1.0
    values = []
    for n, (x, p) in enumerate(zip(contrasts, probabilities, strict=True)):
        z, c = x - effect, 1 / min(p, 1 - p)
        log_e += math.log1p(-min(max(-mean / (spread + mean * mean), 0), 0.5 / c) * z)
        values.append(log_e)
        total += z
        mean = total / (n + 2)
        squares += (z - mean) ** 2
        spread = squares / (n + 2)
    return np.array(values)


def simulate(seed, *, runs, units, difference, share=0.5):
    rng = np.random.default_rng(seed)
    arms = (rng.random((runs, units)) < share).astype(int)
    outcomes = (rng.random((runs, units)) < 0.4 + difference * arms).astype(float)
    return run_e_process(arms, share, outcomes).contrasts


def share_given_up(contrasts, share=0.5, effect=EFFECT):
    found = run_futility(contrasts, share, effect=effect)
    assert found.end is None
    return (found.log_e_futile.max(axis=1) >= math.log(20)).mean()


def test_equals_the_definition():
    rng = np.random.default_rng(1)
    p = rng.choice([0.05, 0.25, 0.5], 400)
    arms = (rng.random(400) < p).astype(int)
    contrasts = run_e_process(arms, p, rng.random(400)).contrasts
    found = run_futility(contrasts, p, effect=0.3)
    np.testing.assert_allclose(found.log_e_futile, reference(contrasts, p, 0.3), atol=1e-9)


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize("difference", [EFFECT, 2 * EFFECT])
@pytest.mark.quick_cases(1)
def test_what_is_worth_finding_is_rarely_given_up(share, difference):
    """At most 1 in 20, whenever one looks; 200 runs place that within 3 points."""
    assert share_given_up(simulate(2, runs=200, units=2000, difference=difference, share=share), share) <= 0.08


def test_what_is_no_better_is_given_up():
    assert share_given_up(simulate(3, runs=20, units=12_000, difference=0.0)) >= 0.8
    assert share_given_up(simulate(3, runs=20, units=3_000, difference=-EFFECT)) >= 0.8


@pytest.mark.parametrize("cut", [0, 1, 137, 300])
def test_it_may_be_cut_anywhere(cut):
    (contrasts,) = simulate(4, runs=1, units=300, difference=0.0)
    whole = run_futility(contrasts, 0.5, effect=EFFECT)
    first = run_futility(contrasts[:cut], 0.5, effect=EFFECT)
    rest = run_futility(contrasts[cut:], 0.5, effect=EFFECT, past=first.end)
    assert np.array_equal(np.concatenate([first.log_e_futile, rest.log_e_futile]), whole.log_e_futile)
    assert rest.end == whole.end and run_futility(contrasts[:0], 0.5, effect=EFFECT).end == NOTHING


def test_an_effect_that_no_outcome_could_reach_is_given_up_soon():
    (contrasts,) = simulate(5, runs=1, units=100, difference=0.1)
    assert run_futility(contrasts, 0.5, effect=3.0).log_e_futile[-1] > math.log(20)


def test_an_effect_has_a_size():
    with pytest.raises(ValueError, match="above 0"):
        run_futility(np.zeros(3), 0.5, effect=0.0)
