"""Makes the acting policy from a model's probabilities, and draws an action from it. PURE."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Draw:
    """`index` of the action, and its `propensity` in (0, 1] under `policy`, which is what acted."""

    index: int
    propensity: float
    policy: tuple[float, ...]


def acting_policy(probabilities: Sequence[float], *, temperature: float, epsilon: float) -> tuple[float, ...]:
    """(1 − ε)·softmax(log p / τ) + ε/K over K options; sums to 1.

    `probabilities`: K numbers ≥ 0 with a positive sum. `temperature` τ > 0, `epsilon` ε in [0, 1].
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
    return tuple(weight * scale + uniform for weight in weights)


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


def draw_action(policy: Sequence[float], rng: random.Random) -> Draw:
    """One action from the policy, with the probability that it really had."""
    index = rng.choices(range(len(policy)), weights=policy, k=1)[0]
    return Draw(index=index, propensity=min(1.0, policy[index]), policy=tuple(policy))
