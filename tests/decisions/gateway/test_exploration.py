"""Exploration: plain probabilities in, the policy that acts out."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decisions.gateway.exploration import (
    acting_policy,
    draw_action,
    draw_order,
    exploration_share,
    first_places,
    greedy_policy,
    model_probabilities,
    order_probability,
)

PROBABILITIES = st.lists(st.floats(1e-6, 1), min_size=1, max_size=8)


class TestExploration:
    @given(PROBABILITIES, st.floats(0.05, 20), st.floats(0, 1))
    def test_a_policy_sums_to_one_and_leaves_every_option_its_share(self, p, temperature, epsilon):
        policy = acting_policy(p, temperature=temperature, epsilon=epsilon)
        assert math.fsum(policy) == pytest.approx(1)
        assert all(share >= epsilon / len(p) * (1 - 1e-12) for share in policy)
        # The order of preference stays.
        for (a, pa), (b, pb) in itertools.combinations(zip(p, policy, strict=True), 2):
            assert (a - b) * (pa - pb) >= 0 or pa == pytest.approx(pb)

    @given(PROBABILITIES)
    def test_temperature_one_and_no_epsilon_is_the_model_itself(self, p):
        assert acting_policy(p, temperature=1, epsilon=0) == pytest.approx([x / math.fsum(p) for x in p])

    def test_by_hand(self):
        assert acting_policy([0.8, 0.2], temperature=0.5, epsilon=0.1) == pytest.approx(
            [0.9 * 0.64 / 0.68 + 0.05, 0.9 * 0.04 / 0.68 + 0.05]
        )
        assert acting_policy([1.0, 0.0], temperature=2, epsilon=0.5) == (0.75, 0.25)
        assert acting_policy([0.9, 0.1], temperature=1e-3, epsilon=0) == (1.0, pytest.approx(0, abs=1e-300))

    @pytest.mark.parametrize(
        ("p", "temperature", "epsilon"),
        [
            ([], 1, 0),
            ([0.0, 0.0], 1, 0),
            ([0.5, -0.1], 1, 0),
            ([0.5, float("nan")], 1, 0),
            ([0.5, float("inf")], 1, 0),
            ([0.5, 0.5], 0, 0),
            ([0.5, 0.5], 1, 1.1),
            ([0.5, 0.5], 1, -0.1),
        ],
    )
    def test_a_policy_that_was_not_meant_does_not_act(self, p, temperature, epsilon):
        with pytest.raises(ValueError, match=r".+"):
            acting_policy(p, temperature=temperature, epsilon=epsilon)

    @given(PROBABILITIES, st.floats(0.05, 20), st.floats(0.01, 1), st.floats(0.01, 1000))
    def test_a_budget_bounds_what_exploration_gives_up_and_forbids_no_option(self, p, temperature, epsilon, budget):
        free = acting_policy(p, temperature=temperature, epsilon=epsilon)
        policy = acting_policy(p, temperature=temperature, epsilon=epsilon, budget=budget)
        estimates = [x / math.fsum(p) for x in p]
        loss = max(estimates) - math.fsum(m * e for m, e in zip(policy, estimates, strict=True))
        assert math.fsum(policy) == pytest.approx(1) and loss * 1000 <= budget + 1e-6
        assert all(after > 0 for after in policy)
        share = exploration_share(p, free, budget)
        assert all(after >= share * before * (1 - 1e-9) for after, before in zip(policy, free, strict=True))

    def test_a_budget_by_hand(self):
        # ε/2 of 0.2 takes the worse option, which costs 0.1 · (0.9 − 0.1) = 0.08 a decision: a quarter of it fits.
        bounded = acting_policy([0.9, 0.1], temperature=1e-3, epsilon=0.2, budget=20)
        assert bounded == pytest.approx((0.975, 0.025))
        # What seems equally good is free.
        assert acting_policy([0.5, 0.5], temperature=1, epsilon=0.2, budget=0.01) == (0.5, 0.5)
        for wrong in (0, -1, 1001, math.nan):
            with pytest.raises(ValueError, match="budget"):
                acting_policy([0.9, 0.1], temperature=1, epsilon=0.2, budget=wrong)

    @given(PROBABILITIES, st.floats(0.2, 3), st.floats(0, 0.9))
    def test_what_the_model_thought_comes_back_from_how_it_acted(self, p, temperature, epsilon):
        policy = acting_policy(p, temperature=temperature, epsilon=epsilon)
        found = model_probabilities(policy, temperature=temperature, epsilon=epsilon)
        assert found == pytest.approx([x / math.fsum(p) for x in p], abs=1e-3)

    def test_a_uniform_policy_hides_what_the_model_thought(self):
        assert model_probabilities([0.5, 0.5], temperature=1, epsilon=1) is None
        with pytest.raises(ValueError, match="temperature 0"):
            model_probabilities([0.5, 0.5], temperature=0, epsilon=0)

    def test_the_propensity_is_the_probability_of_what_was_drawn(self):
        policy, rng = (0.2, 0.5, 0.3), random.Random(0)
        draws = [draw_action(policy, rng) for _ in range(20_000)]
        assert all(draw.propensity == policy[draw.index] for draw in draws)
        for index, share in enumerate(policy):
            found = sum(draw.index == index for draw in draws) / len(draws)
            assert found == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / len(draws)))

    def test_rounding_never_gives_a_propensity_above_one(self):
        assert draw_action((1.0000000000000002,), random.Random(0)).propensity == 1.0


def test_orders_are_drawn_as_probably_as_they_say():
    """Of all first two of four: the propensities are a distribution, and draws follow it."""
    policy = acting_policy(first_places([0.9, 0.5, 0.2, 0.0]), temperature=2.0, epsilon=0.2)
    told = {order: order_probability(policy, order) for order in itertools.permutations(range(4), 2)}
    assert math.fsum(told.values()) == pytest.approx(1)
    assert math.fsum(p for order, p in told.items() if order[0] == 1) == pytest.approx(policy[1])
    rng = random.Random(0)
    drawn = [draw_order(policy, 2, rng) for _ in range(4000)]
    for order, share in told.items():
        found = [one for one in drawn if one.places == order]
        assert all(one.propensity == share for one in found)
        assert len(found) / len(drawn) == pytest.approx(share, abs=4 * (share * (1 - share) / len(drawn)) ** 0.5)


def test_an_order_too_improbable_for_a_number_has_no_propensity():
    policy = acting_policy([1.0] * 400, temperature=1.0, epsilon=0.0)
    assert draw_order(policy, 400, random.Random(0)).propensity == 0.0
    assert draw_order(policy, 20, random.Random(0)).propensity > 0.0
    assert draw_order([1.0, 0.0, 0.0], 3, random.Random(0)).propensity == pytest.approx(0.5)


def test_a_greedy_policy_is_all_on_the_likeliest():
    assert greedy_policy([0.2, 0.4, 0.4]) == (0.0, 1.0, 0.0)
