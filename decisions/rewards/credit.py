"""Credit: how much of what an episode earned reaches each of its decisions. PURE.

A component of an episode has one value for all its decisions; the spec's scheme says what each of them is credited
with. Decisions are in the order of their step numbers, then of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SCHEMES: Mapping[str, str] = {
    "equal": "Every decision is credited with all of it.",
    "return_to_go": "The last decision is credited with all of it, each earlier one with the discount times as much.",
    "last_step": "The last decision is credited with all of it, the others with nothing.",
    "leave_one_out": "Every decision is credited with its difference from the mean of the query's other episodes.",
}
"""By name, for people."""


def credit(
    scheme: str, value: float, *, place: int, count: int, discount: float, others: Sequence[float]
) -> float | None:
    """What the decision at `place` (0 first) of `count` is credited with of `value`; None where it has to wait.

    discount: in (0, 1]. With it the return from step t of a reward that comes at the end is γ^(T − t) · value (Sutton
    and Barto, Reinforcement Learning, 3.3). others: the values of the other episodes of the same query; the difference
    from their mean is the leave-one-out baseline of REINFORCE (Kool, van Hoof and Welling 2019, "Buy 4 REINFORCE
    samples, get a baseline for free"), and without any there is nothing to compare with.
    """
    match scheme:
        case "equal":
            return value
        case "return_to_go":
            return value * discount ** (count - 1 - place)
        case "last_step":
            return value if place == count - 1 else 0.0
        case "leave_one_out":
            return value - sum(others) / len(others) if others else None
    raise ValueError(f"{scheme!r} is no credit scheme; known: {', '.join(SCHEMES)}")
