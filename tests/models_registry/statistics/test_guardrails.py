"""Guardrails: the formula against a plain loop, false claims at the margin under every look, and the units needed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from models_registry.statistics.e_process import NOTHING, run_e_process
from models_registry.statistics.guardrails import run_guardrail


def reference(arms, probabilities, measures, margin):
    """The definition, one unit after another: (log E non-inferior, log E harm)."""
    log_safe = log_harm = 0.0
    sum_g = sum_y = 0.0
    squares, spread, mu = 1.0, 1.0, 0.0
    rows = []
    for n, (a, p, g) in enumerate(zip(arms, probabilities, measures, strict=True)):
        y = (a - p) / (p * (1 - p)) * (g - (0.5 + sum_g) / (1 + n)) - margin
        c = 1 / min(p, 1 - p)
        bet = mu / (spread + mu * mu)
        log_harm += math.log1p(min(max(bet, 0), 1 / (2 * (c + margin))) * y)
        log_safe += math.log1p(-min(max(-bet, 0), 1 / (2 * (c - margin))) * y)
        rows.append((log_safe, log_harm))
        sum_g, sum_y = sum_g + g, sum_y + y
        mu = sum_y / (n + 2)
        squares += (y - mu) ** 2
        spread = squares / (n + 2)
    return np.array(rows)


def simulate(seed, *, runs, units, base, worsening, margin, share=0.5):
    rng = np.random.default_rng(seed)
    arms = (rng.random((runs, units)) < share).astype(int)
    measures = (rng.random((runs, units)) < base + worsening * arms).astype(float)
    return run_guardrail(arms, share, measures, margin=margin)


def share_reaching(log_e, bound=20):
    return (log_e.max(axis=1) >= math.log(bound)).mean()


def units_until(log_e, bound=20):
    """1-based unit at which each run first reaches the bound, inf where it does not."""
    reached = log_e >= math.log(bound)
    return np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, np.inf)


def test_equals_the_definition():
    rng = np.random.default_rng(1)
    p = rng.choice([0.05, 0.25, 0.5], 500)
    arms = (rng.random(500) < p).astype(int)
    measures = np.clip(rng.normal(0.1 + 0.05 * arms, 0.2), 0, 1)
    got = run_guardrail(arms, p, measures, margin=0.03)
    expected = reference(arms, p, measures, 0.03)
    np.testing.assert_allclose(got.log_e_non_inferior, expected[:, 0], atol=1e-9)
    np.testing.assert_allclose(got.log_e_harm, expected[:, 1], atol=1e-9)


def test_without_a_margin_it_is_the_decision_test_of_the_share_that_went_well():
    rng = np.random.default_rng(2)
    arms, measures = rng.integers(0, 2, 400), rng.random(400)
    guardrail = run_guardrail(arms, 0.4, measures, margin=1e-12)
    decision = run_e_process(arms, 0.4, 1 - measures)
    np.testing.assert_allclose(guardrail.log_e_non_inferior, decision.log_e_plus, atol=1e-8)
    np.testing.assert_allclose(guardrail.log_e_harm, decision.log_e_minus, atol=1e-8)
    np.testing.assert_allclose(guardrail.estimate, -decision.estimate, atol=1e-9)


# 300 runs place a rate of 5% within 1.3 points (a standard error): the bound on what is seen leaves two of them.
@pytest.mark.parametrize(
    ("base", "margin", "share"), [(0.0, 0.05, 0.5), (0.02, 0.01, 0.5), (0.1, 0.02, 0.5), (0.05, 0.05, 0.1)]
)
def test_false_claims_stay_below_their_bound_under_every_look(base, margin, share):
    """Worse by exactly the margin is the hardest case of both nulls."""
    at_margin = simulate(3, runs=300, units=3000, base=base, worsening=margin, margin=margin, share=share)
    assert share_reaching(at_margin.log_e_non_inferior) <= 0.05 + 0.026
    assert share_reaching(at_margin.log_e_harm) <= 0.05 + 0.026


def test_a_worse_treatment_is_hardly_ever_called_non_inferior():
    worse = simulate(4, runs=200, units=3000, base=0.02, worsening=0.05, margin=0.01)
    assert share_reaching(worse.log_e_non_inferior) <= 0.03


@pytest.mark.parametrize(("margin", "least", "most"), [(0.01, 1150, 1600), (0.02, 550, 800), (0.05, 200, 330)])
def test_arms_without_any_failure_need_this_many_units(margin, least, most):
    units = units_until(simulate(5, runs=200, units=1700, base=0.0, worsening=0.0, margin=margin).log_e_non_inferior)
    assert least < np.median(units) < np.quantile(units, 0.95) < most


def test_equal_arms_with_failures_need_more_and_get_there():
    equal = simulate(6, runs=100, units=4000, base=0.05, worsening=0.0, margin=0.05)
    units = units_until(equal.log_e_non_inferior)
    assert 330 < np.median(units) < 900
    assert np.isfinite(units).mean() >= 0.95
    assert share_reaching(equal.log_e_harm, 40) == 0


def test_harm_beyond_the_margin_is_found():
    harmed = simulate(7, runs=100, units=2000, base=0.01, worsening=0.10, margin=0.01)
    assert share_reaching(harmed.log_e_harm, 40) >= 0.95
    assert share_reaching(harmed.log_e_non_inferior) <= 0.03
    assert harmed.estimate[:, -1].mean() == pytest.approx(0.10, abs=0.01)


@given(
    arms=arrays(np.int64, 30, elements=st.integers(0, 1)),
    shares=arrays(np.float64, 30, elements=st.floats(0.01, 0.99)),
    measures=arrays(np.float64, 30, elements=st.floats(0, 1)),
    margin=st.floats(0.001, 0.99),
)
def test_a_prefix_gives_the_same_values_and_all_are_finite(arms, shares, measures, margin):
    whole = run_guardrail(arms, shares, measures, margin=margin)
    part = run_guardrail(arms[:17], shares[:17], measures[:17], margin=margin)
    np.testing.assert_allclose(whole.log_e_non_inferior[:17], part.log_e_non_inferior, atol=1e-9)
    np.testing.assert_allclose(whole.log_e_harm[:17], part.log_e_harm, atol=1e-9)
    assert np.isfinite(whole.log_e_non_inferior).all() and np.isfinite(whole.log_e_harm).all()


@pytest.mark.parametrize("margin", [0.0, 1.0, -0.01, math.nan])
def test_a_margin_out_of_range_is_refused(margin):
    with pytest.raises(ValueError):
        run_guardrail([0, 1], 0.5, [0, 1], margin=margin)


def test_a_measure_out_of_range_is_refused():
    with pytest.raises(ValueError):
        run_guardrail([0, 1], 0.5, [0, 1.1], margin=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_a_sequence_cut_into_looks_ends_where_the_whole_does(seed):
    rng = np.random.default_rng(seed)
    shares = np.repeat([0.05, 0.5], 300)
    arms = (rng.random(600) < shares).astype(int)
    measures = (rng.random(600) < 0.1).astype(float)
    past = NOTHING
    for part in np.split(np.arange(600), np.sort(rng.integers(0, 600, 9))):
        past = run_guardrail(arms[part], shares[part], measures[part], margin=0.02, past=past).end
    whole = run_guardrail(arms, shares, measures, margin=0.02)
    assert past.log_e_minus == pytest.approx(whole.log_e_non_inferior[-1], abs=1e-9)
    assert past.log_e_plus == pytest.approx(whole.log_e_harm[-1], abs=1e-9)
    assert past.contrasts / past.units == pytest.approx(whole.estimate[-1], abs=1e-9)
