"""The e-process: its formula against a plain loop, false wins under every look, power, and what bets may know."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from models_registry.statistics.e_process import CAP, NOTHING, SHARP_CAP, compute_posteriors, rescale, run_e_process


def reference(arms, probabilities, outcomes):
    """The definition, one observation after another."""
    log_plus = log_minus = 0.0
    sum_y = sum_x = 0.0
    squares, spread, mu = 1.0, 1.0, 0.0
    rows = []
    for n, (a, p, y) in enumerate(zip(arms, probabilities, outcomes, strict=True)):
        mean = (0.5 + sum_y) / (1 + n)
        x = (a - p) / (p * (1 - p)) * (y - mean)
        cap = min(p, 1 - p) / 2
        bet = mu / (spread + mu * mu)
        log_plus += math.log1p(min(max(bet, 0), cap) * x)
        log_minus += math.log1p(-min(max(-bet, 0), cap) * x)
        rows.append((log_plus, log_minus))
        sum_y, sum_x = sum_y + y, sum_x + x
        mu = sum_x / (n + 2)
        squares += (x - mu) ** 2
        spread = squares / (n + 2)
    return np.array(rows)


def simulate(rng, runs, n, share, base, effect):
    arms = (rng.random((runs, n)) < share).astype(int)
    outcomes = (rng.random((runs, n)) < base + effect * arms).astype(float)
    return run_e_process(arms, share, outcomes)


@pytest.mark.parametrize("varying", [False, True])
def test_equals_the_definition(varying):
    rng = np.random.default_rng(1)
    p = rng.choice([0.05, 0.25, 0.5], 500) if varying else np.full(500, 0.3)
    arms = (rng.random(500) < p).astype(int)
    outcomes = np.clip(rng.normal(0.4 + 0.2 * arms, 0.3), 0, 1)
    got = run_e_process(arms, p, outcomes)
    expected = reference(arms, p, outcomes)
    np.testing.assert_allclose(got.log_e_plus, expected[:, 0], atol=1e-9)
    np.testing.assert_allclose(got.log_e_minus, expected[:, 1], atol=1e-9)
    assert got.treated[-1] == arms.sum()
    assert got.estimate[-1] == pytest.approx(got.contrasts.mean())
    assert got.variance[-1] == pytest.approx(got.contrasts.var(ddof=1))


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_false_wins_stay_below_their_bound_under_every_look(share):
    result = simulate(np.random.default_rng(2), 300, 4000, share, 0.3, 0.0)
    assert (result.log_e_two_sided.max(axis=1) >= math.log(20)).mean() <= 0.05
    assert (result.log_e_plus.max(axis=1) >= math.log(40)).mean() <= 0.035
    assert (result.log_e_minus.max(axis=1) >= math.log(20)).mean() <= 0.06


def test_an_adaptive_share_keeps_the_bound():
    """Each unit's share follows the outcomes before it, as Thompson allocation does."""
    rng = np.random.default_rng(3)
    runs, n = 300, 1500
    arms, shares, outcomes = np.zeros((3, runs, n))
    totals = np.ones((runs, 2, 2))
    rows = np.arange(runs)
    for i in range(n):
        means = totals[:, :, 0] / totals.sum(axis=2)
        shares[:, i] = np.clip(0.5 + 5 * (means[:, 1] - means[:, 0]), 0.1, 0.9)
        arm = (rng.random(runs) < shares[:, i]).astype(int)
        reward = (rng.random(runs) < 0.4).astype(float)
        totals[rows, arm, 0] += reward
        totals[rows, arm, 1] += 1 - reward
        arms[:, i], outcomes[:, i] = arm, reward
    wins = run_e_process(arms, shares, outcomes).log_e_two_sided.max(axis=1) >= math.log(20)
    assert wins.mean() <= 0.05


def test_a_real_gain_is_found_and_a_real_loss_too():
    better = simulate(np.random.default_rng(4), 100, 1500, 0.5, 0.5, 0.15)
    assert (better.log_e_plus.max(axis=1) >= math.log(40)).mean() >= 0.95
    worse = simulate(np.random.default_rng(5), 100, 1500, 0.5, 0.6, -0.15)
    assert (worse.log_e_minus.max(axis=1) >= math.log(20)).mean() >= 0.95
    assert better.estimate[:, -1].mean() == pytest.approx(0.15, abs=0.02)


def test_repeated_decisions_of_one_unit_counted_as_units_win_falsely():
    """The larger trap than peeking: why an observation is a unit's mean, and is consumed once."""
    rng = np.random.default_rng(6)
    per_unit, units, runs = 20, 200, 100
    arms = (rng.random((runs, units)) < 0.5).astype(int)
    rates = rng.beta(0.5, 1.0, (runs, units))
    hits = (rng.random((runs, units, per_unit)) < rates[..., None]).astype(float)
    by_decision = run_e_process(arms.repeat(per_unit, axis=1), 0.5, hits.reshape(runs, -1))
    by_unit = run_e_process(arms, 0.5, hits.mean(axis=2))
    assert (by_decision.log_e_two_sided.max(axis=1) >= math.log(20)).mean() > 0.3
    assert (by_unit.log_e_two_sided.max(axis=1) >= math.log(20)).mean() <= 0.07


OUTCOMES = arrays(np.float64, 30, elements=st.floats(0, 1))
ARMS = arrays(np.int64, 30, elements=st.integers(0, 1))
SHARES = arrays(np.float64, 30, elements=st.floats(0.01, 0.99))


@given(arms=ARMS, shares=SHARES, outcomes=OUTCOMES)
def test_a_prefix_gives_the_same_values_and_all_are_finite(arms, shares, outcomes):
    whole = run_e_process(arms, shares, outcomes)
    part = run_e_process(arms[:17], shares[:17], outcomes[:17])
    np.testing.assert_allclose(whole.log_e_plus[:17], part.log_e_plus, atol=1e-12)
    np.testing.assert_allclose(whole.log_e_minus[:17], part.log_e_minus, atol=1e-12)
    assert np.isfinite(whole.log_e_plus).all() and np.isfinite(whole.log_e_minus).all()
    assert (np.abs(whole.contrasts) <= 1 / np.minimum(shares, 1 - shares) + 1e-9).all()


@given(arms=ARMS, shares=SHARES, outcomes=OUTCOMES)
def test_exchanging_the_arms_exchanges_the_evidence(arms, shares, outcomes):
    one, other = run_e_process(arms, shares, outcomes), run_e_process(1 - arms, 1 - shares, outcomes)
    np.testing.assert_allclose(one.log_e_plus, other.log_e_minus, atol=1e-9)
    np.testing.assert_allclose(one.estimate, -other.estimate, atol=1e-9)


class TestConditioned:
    """The posterior of the arm, given a unit's actions, in the place of the arm."""

    POLICIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])  # control, treatment: P(action)

    @pytest.mark.parametrize("share", [0.5, 0.1])
    def test_its_mean_is_the_effect_and_its_variance_no_larger(self, share):
        """Exactly, over every arm and action; an outcome belongs to its action."""
        value, centre = np.array([0.2, 0.9, 0.4]), 0.37
        arms, actions = (grid.ravel() for grid in np.indices((2, 3)))
        weight = np.where(arms == 1, share, 1 - share) * self.POLICIES[arms, actions]
        posterior = compute_posteriors(arms, share, *np.log(self.POLICIES[:, actions]))
        moments = {}
        for name, of in (("plain", arms), ("conditioned", posterior)):
            x = (of - share) / (share * (1 - share)) * (value[actions] - centre)
            assert np.abs(x).max() <= 1 / min(share, 1 - share)
            moments[name] = (weight @ x, weight @ np.square(x))
        effect = (self.POLICIES[1] - self.POLICIES[0]) @ value
        assert moments["plain"][0] == pytest.approx(effect) and moments["conditioned"][0] == pytest.approx(effect)
        assert moments["conditioned"][1] < moments["plain"][1]

    def test_what_is_not_known_is_the_arm_and_what_an_arm_never_does_is_certain(self):
        arms, nan = np.array([0.0, 1.0, 1.0, 0.0, 1.0]), math.nan
        control = [nan, -1.0, -1.0, -0.5, -math.inf]
        treatment = [-1.0, nan, -1.0, -math.inf, -0.5]
        assert compute_posteriors(arms, 0.3, control, treatment).tolist() == pytest.approx([0, 1, 0.3, 0, 1])

    def test_the_promotion_stays_honest_and_comes_sooner(self):
        rng = np.random.default_rng(7)
        runs, units = 300, 1500
        same = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]])  # two policies that differ and are worth the same
        right = np.array([0.5, 0.4, 0.7])
        found = {}
        for name, policies in (("better", self.POLICIES), ("equal", same)):
            if name == "equal":
                right = np.array([0.5, 0.5, 0.5])
            arms = (rng.random((runs, units)) < 0.5).astype(int)
            actions = (policies.cumsum(1)[arms] > rng.random((runs, units, 1))).argmax(-1)
            raw = np.where(rng.random((runs, units)) < right[actions], 0.75, 0.3)
            posteriors = compute_posteriors(arms, 0.5, *np.log(policies[:, actions]))
            sharp = run_e_process(arms, 0.5, rescale(raw, 0.3, 0.75), posteriors=posteriors, cap=SHARP_CAP)
            plain = run_e_process(arms, 0.5, raw)
            found[name] = [(log_e >= math.log(40)).any(1).mean() for log_e in (sharp.log_e_plus, plain.log_e_plus)]
        assert found["better"][0] > found["better"][1]
        assert found["equal"][0] <= 0.035

    @pytest.mark.parametrize(("low", "high"), [(0.5, 0.5), (0.7, 0.2)])
    def test_a_range_without_width_is_refused(self, low, high):
        with pytest.raises(ValueError, match="low < high"):
            rescale([0.5], low, high)
        assert rescale([0.2, 0.3, 0.525, 0.75, 0.8], 0.3, 0.75).tolist() == pytest.approx([0, 0, 0.5, 1, 1])


def test_no_observation_is_no_evidence():
    empty = run_e_process([], 0.5, [])
    assert empty.log_e_plus.shape == empty.contrasts.shape == (0,)


@pytest.mark.parametrize(
    ("arms", "probabilities", "outcomes"),
    [([0, 2], 0.5, [0, 1]), ([0, 1], 0.0, [0, 1]), ([0, 1], 1.0, [0, 1]), ([0, 1], 0.5, [0, 1.2]),
     ([0, 1], 0.5, [0, math.nan]), ([0, 1], math.nan, [0, 1]), ([0, 1, 1], 0.5, [0, 1])],
)  # fmt: skip
def test_values_out_of_range_are_refused(arms, probabilities, outcomes):
    with pytest.raises(ValueError):
        run_e_process(arms, probabilities, outcomes)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sharp", [False, True])
def test_a_sequence_cut_into_looks_ends_where_the_whole_does(seed, sharp):
    """Shares change on the way, and some looks are empty or of a single unit."""
    rng = np.random.default_rng(seed)
    n = 900
    shares = np.repeat([0.05, 0.25, 0.5], n // 3)
    arms = (rng.random(n) < shares).astype(int)
    outcomes = rng.random(n) * 0.6 + 0.05 * arms
    posteriors = np.clip(arms + rng.normal(0, 0.3, n), 0, 1) if sharp else None
    cuts = np.sort(rng.integers(0, n + 1, 12))
    cuts = np.r_[0, cuts, cuts[3], min(cuts[5] + 1, n), n]
    past, log_plus = NOTHING, []
    for begin, end in itertools.pairwise(np.sort(cuts)):
        part = run_e_process(
            arms[begin:end],
            shares[begin:end],
            outcomes[begin:end],
            posteriors=None if posteriors is None else posteriors[begin:end],
            cap=SHARP_CAP if sharp else CAP,
            past=past,
        )
        past = part.end
        log_plus.append(part.log_e_plus)
    whole = run_e_process(arms, shares, outcomes, posteriors=posteriors, cap=SHARP_CAP if sharp else CAP)
    np.testing.assert_allclose(np.concatenate(log_plus), whole.log_e_plus, atol=1e-9)
    assert dataclasses.astuple(past) == pytest.approx(dataclasses.astuple(whole.end), abs=1e-9)
    assert (past.units, past.treated) == (n, arms.sum())
    assert past.log_e_minus == pytest.approx(whole.log_e_minus[-1], abs=1e-9)
    assert past.contrasts / past.units == pytest.approx(whole.estimate[-1])
