"""Makes the acting policy from a model's probabilities, and draws an action or an order from it. PURE.

An order is Plackett and Luce's (Plackett 1975, Luce 1959): the first place is drawn from the policy, and each later one
from what the policy leaves,

    P(a_1 … a_k) = Π_j π(a_j) / (1 − π(a_1) − … − π(a_{j−1}))

so π, exploration included, is the probability of the first place, and the product is exactly what acted.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass

PER = 1_000
"""An exploration budget is counted in right decisions of so many."""


@dataclass(frozen=True, slots=True)
class Draw:
    """`index` of the action, and its `propensity` in (0, 1] under `policy`, which is what acted."""

    index: int
    propensity: float
    policy: tuple[float, ...]


def acting_policy(
    probabilities: Sequence[float], *, temperature: float, epsilon: float, budget: float | None = None
) -> tuple[float, ...]:
    """(1 − ε)·softmax(log p / τ) + ε/K over K options, within the budget; sums to 1.

    `probabilities`: K numbers ≥ 0 with a positive sum. `temperature` τ > 0, `epsilon` ε in [0, 1]. `budget` in
    (0, 1000]: see `exploration_share`.
    Raises ValueError for anything else: a policy that was not meant must not act.
    """
    if not probabilities:
        raise ValueError("no options")
    if temperature <= 0 or not 0 <= epsilon <= 1:
        raise ValueError(f"temperature {temperature} or epsilon {epsilon} out of range")
    if any(not math.isfinite(p) or p < 0 for p in probabilities) or sum(probabilities) <= 0:
        raise ValueError("probabilities must be finite, not negative, and not all zero")
    logs = [math.log(p) / temperature if p > 0 else -math.inf for p in probabilities]
    most = max(logs)
    weights = [math.exp(value - most) for value in logs]
    scale = (1.0 - epsilon) / math.fsum(weights)
    uniform = epsilon / len(weights)
    policy = tuple(weight * scale + uniform for weight in weights)
    share = exploration_share(probabilities, policy, budget)
    if share == 1.0:
        return policy
    best = greedy_policy(probabilities)
    return tuple(share * m + (1.0 - share) * g for m, g in zip(policy, best, strict=True))


def exploration_share(probabilities: Sequence[float], policy: Sequence[float], budget: float | None) -> float:
    """λ in (0, 1]: the share of decisions in which `policy` μ may act where the budget leaves the others to the
    likeliest option, so that λ · (max p − Σ_a μ(a) p(a)) ≤ budget / 1,000.

    p(a) is the model's own estimate that a is right, so the bracket is what μ is expected to give up in one decision.
    What acts is λ·μ + (1 − λ)·[a is likeliest]: whatever μ may choose keeps a probability above 0, and a choice among
    options that seem equally good is free. `budget` > 0; None sets no bound. Raises ValueError for other budgets.
    """
    if budget is None:
        return 1.0
    if not 0 < budget <= PER:
        raise ValueError(f"exploration budget {budget} out of range")
    total = math.fsum(probabilities)
    best = max(probabilities) / total
    loss = best - math.fsum(m * p for m, p in zip(policy, probabilities, strict=True)) / total
    return 1.0 if loss * PER <= budget else budget / PER / loss


def model_probabilities(policy: Sequence[float], *, temperature: float, epsilon: float) -> tuple[float, ...] | None:
    """The inverse of `acting_policy`: what the model thought of each option; None where ε = 1 has hidden it.

    p ∝ (μ − ε/K)^τ. What rounding has pushed below 0 counts as 0. Raises ValueError as `acting_policy` does.
    """
    if not policy or temperature <= 0 or not 0 <= epsilon <= 1:
        raise ValueError(f"no policy, or temperature {temperature} or epsilon {epsilon} out of range")
    uniform = epsilon / len(policy)
    weights = [max(0.0, p - uniform) ** temperature for p in policy]
    total = math.fsum(weights)
    return tuple(weight / total for weight in weights) if epsilon < 1 and total > 0 else None


def greedy_policy(probabilities: Sequence[float]) -> tuple[float, ...]:
    """All on the likeliest option, on the first of several. Raises ValueError without options."""
    best = max(range(len(probabilities)), key=probabilities.__getitem__)
    return tuple(float(place == best) for place in range(len(probabilities)))


def draw_action(policy: Sequence[float], rng: random.Random) -> Draw:
    """One action from the policy, with the probability that it really had."""
    index = rng.choices(range(len(policy)), weights=policy, k=1)[0]
    return Draw(index=index, propensity=min(1.0, policy[index]), policy=tuple(policy))


LEAST = 1e-9
"""Probabilities closer to 0 or 1 count as so close."""


@dataclass(frozen=True, slots=True)
class Order:
    """`places`: the options' indices, first place first. `propensity` in [0, 1]; 0 where it is too small for a number
    with full precision."""

    places: tuple[int, ...]
    propensity: float


def first_places(yes: Sequence[float]) -> tuple[float, ...]:
    """P(first place) of items of each of which a model says how probably it is right for it: softmax of log-odds."""
    clipped = [min(max(p, LEAST), 1.0 - LEAST) for p in yes]
    odds = [p / (1.0 - p) for p in clipped]
    total = math.fsum(odds)
    return tuple(one / total for one in odds)


def draw_order(policy: Sequence[float], places: int, rng: random.Random) -> Order:
    """The first `places` of an order. Where all that is left has probability 0, it is equally probable."""
    left = list(range(len(policy)))
    order: list[int] = []
    for _ in range(min(places, len(policy))):
        weights = _left(policy, left)
        order.append(left.pop(rng.choices(range(len(left)), weights=weights, k=1)[0]))
    return Order(tuple(order), order_probability(policy, order))


def order_probability(policy: Sequence[float], order: Sequence[int]) -> float:
    """P(these are the first places, in this order) under `draw_order`."""
    left = list(range(len(policy)))
    total = 0.0
    for index in order:
        weights = _left(policy, left)
        weight = weights[left.index(index)]
        if weight <= 0.0:
            return 0.0
        total += math.log(weight) - math.log(math.fsum(weights))
        left.remove(index)
    probability = math.exp(min(total, 0.0))
    return probability if probability >= sys.float_info.min else 0.0


def _left(policy: Sequence[float], left: Sequence[int]) -> list[float]:
    weights = [policy[index] for index in left]
    return weights if math.fsum(weights) > 0.0 else [1.0] * len(left)
