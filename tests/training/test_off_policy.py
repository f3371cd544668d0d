"""Off-policy estimates and the gate, against worlds whose truth is a sum, and against two logs of a real shop."""

import csv
import logging
import math
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest

from training.evaluation.off_policy import (
    Log,
    check_off_policy_gate,
    cross_fit_by_probability,
    estimate_value,
)

logger = logging.getLogger(__name__)

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "open_bandit"
CONTEXTS, OPTIONS = 12, 4


@dataclass(frozen=True)
class World:
    """Contexts x drawn evenly; Q[x, a] the chance of reward 1; mu the log's policy, (1 - ε) softmax + ε / K."""

    rewards: np.ndarray
    mu: np.ndarray
    epsilon: float

    def value(self, policy):
        return float((policy * self.rewards).sum(axis=1).mean())

    def draw(self, policy, n, rng, *, guess=None):
        """A log of n decisions with what `policy` would have done; `guess`, (contexts, options), is q."""
        q = self.rewards if guess is None else guess
        x = rng.integers(CONTEXTS, size=n)
        a = (self.mu[x].cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
        return Log(
            reward=(rng.random(n) < self.rewards[x, a]).astype(float),
            propensity=self.mu[x, a],
            target=policy[x, a],
            q_logged=q[x, a],
            q_target=(policy * q)[x].sum(axis=1),
            epsilon=self.epsilon,
        )

    def draw_cross_fitted(self, policy, n, rng):
        """As `draw`, with guesses fitted to the log itself by the policy's probabilities, which do not tell rewards."""
        x = rng.integers(CONTEXTS, size=n)
        a = (self.mu[x].cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
        reward = (rng.random(n) < self.rewards[x, a]).astype(float)
        guesses = cross_fit_by_probability(policy[x], policy[x], a, reward)
        return Log(reward, self.mu[x, a], policy[x, a], *guesses, self.epsilon)


def softmax(scores):
    grown = np.exp(scores - scores.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def make_world(seed, *, epsilon=0.2, peak=1.5):
    rng = np.random.default_rng(seed)
    rewards = rng.uniform(0.1, 0.9, (CONTEXTS, OPTIONS))
    mu = (1 - epsilon) * softmax(peak * rng.normal(size=(CONTEXTS, OPTIONS))) + epsilon / OPTIONS
    return World(rewards, mu, epsilon)


def make_policy(world, seed, *, skill):
    """A softmax policy; skill > 0 leans to the better options, < 0 to the worse."""
    noise = np.random.default_rng(seed).normal(size=world.mu.shape)
    return softmax(skill * 6 * (world.rewards - 0.5) + noise)


@pytest.fixture
def log():
    """3,000 decisions that the gate can answer: the new policy is better."""
    world = make_world(1)
    return world.draw(make_policy(world, 2, skill=1.0), 3_000, np.random.default_rng(3))


# -- estimates


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_weighted_estimates_are_unbiased_and_the_direct_method_is_as_wrong_as_its_model(seed):
    world = make_world(seed)
    policy = make_policy(world, seed + 50, skill=0.5)
    wrong = np.random.default_rng(seed).permuted(world.rewards, axis=1) * 0.5
    rng = np.random.default_rng(seed)
    found = [estimate_value(world.draw(policy, 500, rng, guess=wrong)) for _ in range(300)]
    truth = world.value(policy)
    for name in ("ips", "snips", "doubly_robust"):
        means = np.array([getattr(one, name).mean for one in found])
        assert abs(means.mean() - truth) < 4 * means.std() / math.sqrt(300), name
    assert abs(np.mean([one.direct.mean for one in found]) - truth) > 0.1
    assert np.mean([one.logged.mean for one in found]) == pytest.approx(world.value(world.mu), abs=0.01)
    assert np.mean([one.mean_weight for one in found]) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("seed", [4, 5])
@pytest.mark.slow
def test_intervals_cover_the_truth(seed):
    world = make_world(seed)
    policy = make_policy(world, seed + 50, skill=0.5)
    rng = np.random.default_rng(seed)
    truth, covered = world.value(policy), dict.fromkeys(("ips", "snips", "doubly_robust", "difference"), 0)
    for _ in range(400):
        gate = check_off_policy_gate(world.draw_cross_fitted(policy, 800, rng))
        for name in ("ips", "snips", "doubly_robust"):
            interval = getattr(gate.estimates, name)
            covered[name] += interval.low <= truth <= interval.high
        covered["difference"] += gate.difference.low <= truth - world.value(world.mu) <= gate.difference.high
    assert all(0.92 <= hits / 400 <= 0.98 for hits in covered.values()), covered


def test_doubly_robust_survives_wrong_propensities_when_the_model_is_right():
    world = make_world(6)
    policy = make_policy(world, 7, skill=1.0)
    log = world.draw(policy, 20_000, np.random.default_rng(8))
    log = replace(log, propensity=np.clip(log.propensity * 2, 0, 1))
    found, truth = estimate_value(log), world.value(policy)
    assert abs(found.doubly_robust.mean - truth) < 0.02
    assert abs(found.ips.mean - truth) > 0.1


def test_a_good_model_narrows_the_doubly_robust_interval():
    world = make_world(9)
    found = estimate_value(world.draw(make_policy(world, 10, skill=1.0), 4_000, np.random.default_rng(11)))
    width = {name: getattr(found, name).high - getattr(found, name).low for name in ("ips", "snips", "doubly_robust")}
    assert width["doubly_robust"] < width["snips"] and width["doubly_robust"] < 0.8 * width["ips"]


def test_snips_ignores_a_common_factor_of_the_weights_and_follows_a_shift_of_the_reward(log):
    scaled, found = estimate_value(replace(log, target=log.target / 2)), estimate_value(log)
    assert scaled.snips.mean == pytest.approx(found.snips.mean)
    assert (scaled.snips.low, scaled.snips.high) == pytest.approx((found.snips.low, found.snips.high))
    assert scaled.ips.mean == pytest.approx(found.ips.mean / 2)
    assert scaled.effective_sample_size == pytest.approx(found.effective_sample_size)
    half, shifted = replace(log, reward=log.reward / 2), replace(log, reward=log.reward / 2 + 0.5)
    assert estimate_value(shifted).snips.mean - estimate_value(half).snips.mean == pytest.approx(0.5)


def test_the_logged_policy_itself_is_worth_what_it_earned(log):
    found = estimate_value(replace(log, target=log.propensity))
    assert found.ips == found.logged and found.snips.mean == pytest.approx(found.logged.mean)
    assert found.effective_sample_size == pytest.approx(3_000) and found.mean_weight == 1
    assert found.largest_weight_share == pytest.approx(1 / 3_000)


def test_known_values():
    log = Log(
        reward=np.array([1.0, 0.0, 0.5]),
        propensity=np.array([0.5, 0.25, 1.0]),
        target=np.array([1.0, 0.5, 0.0]),
        q_logged=np.array([0.5, 0.5, 0.25]),
        q_target=np.array([0.5, 0.25, 0.75]),
    )
    found = estimate_value(log)  # weights 2, 2, 0
    assert found.ips.mean == pytest.approx(2 / 3) and found.snips.mean == pytest.approx(0.5)
    assert found.direct.mean == pytest.approx(0.5) and found.doubly_robust.mean == pytest.approx(0.5)
    assert found.effective_sample_size == pytest.approx(2) and found.mean_weight == pytest.approx(4 / 3)
    assert (found.largest_weight_share, found.n, found.logged.mean) == (0.5, 3, 0.5)
    assert check_off_policy_gate(log).difference.mean == pytest.approx(0.0)


def test_decisions_of_one_group_count_as_dependent(log):
    copied = Log(*(np.repeat(getattr(log, field.name), 4) for field in fields(log)[:5]), epsilon=log.epsilon)
    users = [("user", i // 4) for i in range(12_000)]
    alone, grouped = check_off_policy_gate(log), check_off_policy_gate(copied, users)
    assert grouped.lower == pytest.approx(alone.lower)
    assert grouped.difference.clusters == 3_000 and grouped.difference.n == 12_000
    assert check_off_policy_gate(copied).lower > alone.lower + 0.002  # the trap: copies taken for evidence


def test_a_decision_without_a_group_is_its_own_and_labels_need_no_order(log):
    assert estimate_value(log, [None] * 3_000) == estimate_value(log)
    mixed = [1, "1", None] * 1_000  # two groups and a thousand decisions by themselves
    assert estimate_value(log, mixed).ips.clusters == 1_002


def test_a_target_that_never_does_what_was_logged_is_unknown_to_snips(log):
    gate = check_off_policy_gate(replace(log, target=np.zeros(3_000)))
    assert math.isnan(gate.estimates.snips.mean) and gate.estimates.snips.high == math.inf
    assert (gate.estimates.effective_sample_size, gate.estimates.largest_weight_share, gate.passed) == (0, 0, False)


def test_every_fault_is_named(log):
    bad = replace(
        log,
        reward=log.reward * 2,
        propensity=log.propensity - 1,
        target=log.target[1:],
        q_logged=log.q_logged * np.inf,
        epsilon=1.5,
        least=np.full(3_000, -0.1),
    )
    for call in (estimate_value, check_off_policy_gate):
        with pytest.raises(ValueError) as raised:
            call(bad, [1, 2])
        for fault in (
            "reward must lie",
            "propensity must lie",
            "target must have the shape (3000,)",
            "q_logged must be",
        ):
            assert fault in str(raised.value)
        for fault in ("epsilon must lie", "least must lie", "one label a decision, got 2 for 3000"):
            assert fault in str(raised.value)
        assert "q_target" not in str(raised.value)
    with pytest.raises(ValueError, match="n at least 1"):
        estimate_value(Log(*(np.empty(0) for _ in range(5))))


# -- cross-fitting


def test_a_model_s_probabilities_guess_rewards_of_options_that_differ():
    rng = np.random.default_rng(14)
    thoughts = [rng.dirichlet(np.ones(2 + i % 3)) for i in range(4_000)]
    a = np.array([rng.integers(row.size) for row in thoughts])
    chance = [0.1 + 0.8 * row for row in thoughts]
    reward = np.array([float(rng.random() < row[place]) for row, place in zip(chance, a, strict=True)])
    logged, target = cross_fit_by_probability(thoughts, thoughts, a, reward)
    truth = np.array([row[place] for row, place in zip(chance, a, strict=True)])
    assert np.abs(logged - truth).mean() < 0.05
    values = np.array([row @ right for row, right in zip(thoughts, chance, strict=True)])
    assert np.abs(target - values).mean() < 0.05
    changed = reward.copy()
    changed[0] = 1 - changed[0]
    assert cross_fit_by_probability(thoughts, thoughts, a, changed)[0][0] == logged[0]  # not in its own guess
    with pytest.raises(ValueError, match="two groups"):
        cross_fit_by_probability(thoughts, thoughts, a, reward, ["g"] * 4_000)


# -- the gate


def test_passes_a_better_policy_and_says_nothing_against_it(log):
    gate = check_off_policy_gate(log)
    assert gate.passed and gate.refusals == () and 0 < gate.difference.low < gate.lower < gate.difference.mean


def test_does_not_pass_a_worse_policy_and_has_no_reason_to_refuse():
    world = make_world(1)
    gate = check_off_policy_gate(world.draw(make_policy(world, 2, skill=-1.0), 3_000, np.random.default_rng(3)))
    assert not gate.passed and gate.refusals == () and gate.difference.high < 0


def one_heavy(log):
    """One decision whose weight is a tenth of all the weight, the rest of the log unchanged."""
    weight = log.target / log.propensity
    propensity = log.propensity.copy()
    propensity[np.argmax(log.target)] = log.target.max() / (weight.sum() / 9)
    return replace(log, propensity=propensity)


def peaked(log):
    """The target puts its weight on one decision in twenty-five."""
    chosen = np.arange(3_000) % 25 == 0
    return replace(log, target=np.where(chosen, 1.0, 0.0), propensity=np.where(chosen, 0.04, 0.9))


REFUSED = {
    "no propensity": (lambda log: replace(log, propensity=np.full(3_000, np.nan)), "3,000 of 3,000 .* no propensity"),
    "one missing": (
        lambda log: replace(log, propensity=np.where(np.arange(3_000) == 5, np.nan, log.propensity)),
        "1 of 3,000 decisions have no propensity",
    ),
    "unknown exploration": (lambda log: replace(log, epsilon=None), "explored is not known"),
    "little exploration": (lambda log: replace(log, epsilon=0.049), "share of 0.049; at least 0.05"),
    "outside the support": (
        lambda log: replace(log, least=np.where(np.arange(3_000) < 12, 0.0, 0.05)),
        "In 12 of 3,000 decisions the new policy may take an action",
    ),
    "rare on the support": (
        lambda log: replace(log, epsilon=None, least=np.full(3_000, 0.006)),
        "only 0.006 under the log's; at least 0.0067 is needed",
    ),
    "few effective": (peaked, "worth 120 of the new policy's own; at least 200"),
    "one heavy": (one_heavy, "One decision carries 10.0% of the total weight"),
    "wrong propensities": (
        lambda log: replace(log, propensity=log.propensity**0.7),
        r"mean weight is 0\.\d+, \d+\.\d standard errors from 1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_a_log_that_cannot_answer_and_says_why(log, case):
    assert check_off_policy_gate(log).passed  # so that only the fault can be the reason
    spoil, sentence = REFUSED[case]
    gate = check_off_policy_gate(spoil(log))
    assert not gate.passed
    assert any(re.search(sentence, refusal) for refusal in gate.refusals), gate.refusals
    assert all(refusal.endswith(".") for refusal in gate.refusals)


def test_without_propensities_only_what_needs_none_is_known(log):
    gate = check_off_policy_gate(replace(log, propensity=np.full(3_000, np.nan)))
    assert gate.lower == -math.inf and math.isnan(gate.difference.mean) and math.isnan(gate.estimates.ips.mean)
    assert math.isnan(gate.estimates.effective_sample_size) and len(gate.refusals) == 1
    known = check_off_policy_gate(log).estimates
    assert (gate.estimates.direct, gate.estimates.logged) == (known.direct, known.logged)


def test_one_group_is_no_evidence(log):
    gate = check_off_policy_gate(log, ["a"] * 3_000)
    assert not gate.passed and gate.lower == -math.inf
    assert gate.refusals[0].startswith("All decisions belong to one group")


def test_known_least_propensities_replace_a_known_share(log):
    assert check_off_policy_gate(replace(log, epsilon=None, least=np.full(3_000, 0.05))).passed
    assert check_off_policy_gate(replace(log, least=np.full(3_000, 0.006))).passed


def test_large_effective_sample_is_asked_of_a_large_log():
    chosen = np.arange(40_000) % 25 == 0
    log = Log(
        reward=np.ones(40_000),
        propensity=np.where(chosen, 0.04, 0.9),
        target=np.where(chosen, 1.0, 0.0),
        q_logged=np.zeros(40_000),
        q_target=np.zeros(40_000),
        epsilon=0.2,
    )
    assert check_off_policy_gate(log).refusals == (
        "The 40,000 decisions are worth 1,600 of the new policy's own; at least 2,000 are needed.",
    )


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.05, 0.1])
def test_truly_worse_policies_are_seldom_passed_and_truly_better_ones_mostly(epsilon):
    passed: dict[bool, list[bool]] = {False: [], True: []}
    for seed in range(300):
        world = make_world(seed % 40, epsilon=epsilon)
        policy = make_policy(world, seed, skill=np.random.default_rng(seed).uniform(-0.7, 0.7))
        better = world.value(policy) > world.value(world.mu)
        gate = check_off_policy_gate(world.draw_cross_fitted(policy, 1_500, np.random.default_rng(10_000 + seed)))
        passed[better].append(gate.passed)
    assert len(passed[False]) > 100 and len(passed[True]) > 100
    assert np.mean(passed[False]) <= 0.025, passed[False]
    assert np.mean(passed[True]) >= 0.5


@pytest.mark.slow
def test_no_difference_is_passed_as_often_as_the_bound_says():
    world = make_world(20)
    good, bad = make_policy(world, 1, skill=1.0), make_policy(world, 1, skill=-1.0)
    logged, high, low = world.value(world.mu), world.value(good), world.value(bad)
    policy = ((logged - low) * good + (high - logged) * bad) / (high - low)
    assert world.value(policy) == pytest.approx(logged)
    rng = np.random.default_rng(21)
    passed = [check_off_policy_gate(world.draw_cross_fitted(policy, 1_500, rng)).passed for _ in range(500)]
    assert 0.02 <= np.mean(passed) <= 0.085


# -- a real shop: two policies acted at the same time, and each one's log knows how often its own choices were clicked


def read_shop(policy):
    """Columns of the log of one policy: item, position (0 to 2), click, propensity."""
    path = REAL / policy / "men" / "men.csv"
    if not path.exists():
        pytest.skip(f"no Open Bandit data at {path}")
    with path.open(newline="") as rows:
        columns = [
            (row["item_id"], row["position"], row["click"], row["propensity_score"]) for row in csv.DictReader(rows)
        ]
    item, position, click, propensity = np.array(columns, dtype=float).T
    return item.astype(int), position.astype(int) - 1, click, propensity


def share_of_items(policy):
    """(positions, items): how often the policy showed each item. The Thompson sampler drifts, so this is its mean."""
    item, position, _, _ = read_shop(policy)
    counts = np.zeros((3, 34))
    np.add.at(counts, (position, item), 1)
    return counts / counts.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("logged", "other"), [("random", "bts"), ("bts", "random")])
def test_a_real_log_predicts_the_other_policy_s_clicks(logged, other):
    item, position, click, propensity = read_shop(logged)
    truth = read_shop(other)[2]
    policy = share_of_items("bts") if other == "bts" else np.full((3, 34), 1 / 34)
    q_logged, q_target = cross_fit_by_probability(policy[position], policy[position], item, click)
    log = Log(
        reward=click,
        propensity=propensity,
        target=policy[position, item],
        q_logged=q_logged,
        q_target=q_target,
        epsilon=1.0 if logged == "random" else None,
    )
    gate = check_off_policy_gate(log)
    logger.info("%s evaluates %s, whose own log earned %s: %s", logged, other, truth.mean(), gate)
    # Some 50 clicks a log: this places a rate of half a percent within a few tenths of one, no closer.
    error = truth.std() / math.sqrt(truth.size)
    for name in ("ips", "snips", "doubly_robust"):
        found = getattr(gate.estimates, name)
        reach = 3 * math.hypot((found.high - found.low) / 3.92, error)
        assert abs(found.mean - truth.mean()) < reach < 0.02, (name, found)
    assert gate.estimates.mean_weight == pytest.approx(1, abs=0.1)
    if logged == "random":
        assert gate.refusals == ()
    else:  # the sampler shows some items almost never, and its log says so nowhere
        assert not gate.passed and "How much the log explored is not known." in gate.refusals
