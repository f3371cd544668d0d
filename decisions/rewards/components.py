"""Reward components: small functions of plain values, in one table with their horizon.

The SQL in `decisions.rewards.calculate` computes the same numbers for millions of decisions; a test compares them. The
engine imports this module, and nothing else of the apps, to reward fresh decisions. A component that cannot be computed
raises `ComponentError`: a failure is stored as an error and is never the number 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

Horizon = Literal["immediate", "delayed", "strategic"]
Parameters = Mapping[str, float | str | bool]

VERDICT_VALUES: Mapping[str, float] = {"confirmed": 1.0, "corrected": -0.5, "overridden": -0.8, "ignored": 0.0}
"""What one verdict is worth before weighting, for every agent (docs/learning.md)."""


class ComponentError(ValueError):
    """The component has no value for this decision; the message says why."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known about one decision when it is rewarded.

    `verdict` is the latest verdict fed back, or None. `answer` is the right action where a verifier or a
    labelled row knows it (fresh decisions only). `confidence` is in [0, 1].
    """

    action: str | None = None
    answer: str | None = None
    verdict: str | None = None
    confidence: float | None = None


class ComponentFunction(Protocol):
    def __call__(self, observed: Observed, parameters: Parameters) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Component:
    """One row of the table. `function` returns the value before weighting, or None while nothing is known.

    low, high: the values it can have, by its default parameters.
    """

    name: str
    horizon: Horizon
    function: ComponentFunction
    summary: str
    low: float
    high: float


def verdict_value(observed: Observed, parameters: Parameters) -> float | None:
    """+1 confirmed, −0.5 corrected, −0.8 overridden, 0 ignored; None before any verdict (docs/learning.md)."""
    if observed.verdict is None:
        return None
    try:
        return VERDICT_VALUES[observed.verdict]
    except KeyError:
        raise ComponentError(f"unknown verdict {observed.verdict!r}; known: {', '.join(VERDICT_VALUES)}") from None


def calibration(observed: Observed, parameters: Parameters) -> float | None:
    """−|confidence − correct| in [−1, 0], where correct is 1 for a confirmed decision and 0 otherwise."""
    if observed.verdict is None or observed.verdict == "ignored":
        return None
    if observed.confidence is None:
        raise ComponentError("the decision carries no confidence")
    if not 0.0 <= observed.confidence <= 1.0:
        raise ComponentError(f"confidence {observed.confidence} must be from 0 to 1")
    return -abs(observed.confidence - (1.0 if observed.verdict == "confirmed" else 0.0))


def matches_answer(observed: Observed, parameters: Parameters) -> float | None:
    """`right` (default 1) when the action equals the known answer, else `wrong` (default 0)."""
    if observed.answer is None:
        raise ComponentError("no answer is known for this decision")
    if observed.action is None:
        raise ComponentError("the decision has no action")
    hit = observed.action == observed.answer
    return float(parameters.get("right", 1.0)) if hit else float(parameters.get("wrong", 0.0))


COMPONENTS: Mapping[str, Component] = {
    component.name: component
    for component in (
        Component(
            "verdict",
            "immediate",
            verdict_value,
            "what a person said of the decision",
            min(VERDICT_VALUES.values()),
            max(VERDICT_VALUES.values()),
        ),
        Component("calibration", "immediate", calibration, "how far stated confidence was from being right", -1.0, 0.0),
        Component(
            "matches_answer", "immediate", matches_answer, "equality with a known answer, on fresh decisions", 0.0, 1.0
        ),
    )
}


def total(values: Mapping[str, float], weights: Mapping[str, float], *, clamp: float = 5.0) -> float:
    """Weighted sum of the components that have a value, clamped to ±`clamp`. Raises ComponentError for NaN: clamping
    would turn it into a bound."""
    raw = sum(weights[name] * value for name, value in values.items())
    if math.isnan(raw):
        raise ComponentError(f"the sum of {', '.join(values)} is not a number")
    return max(-clamp, min(clamp, raw))


def normalise(raw: float, *, low: float = -2.0, high: float = 2.0) -> float:
    """Maps [low, high] linearly to [0, 1] and clamps (docs/learning.md)."""
    return max(0.0, min(1.0, (raw - low) / (high - low)))


def attainable_range(weights: Mapping[str, float], *, clamp: float, low: float, high: float) -> tuple[float, float]:
    """The rewards in [0, 1] between which every reward of these components lies, after clamping and `normalise`.

    One component has always a value where there is a reward; of several each may be missing, which adds nothing.
    With the verdict alone at weight 1 it is [0.3, 0.75] of the default scale. Raises KeyError for unknown names.
    """
    ends = [sorted((weight * COMPONENTS[name].low, weight * COMPONENTS[name].high)) for name, weight in weights.items()]
    if len(ends) > 1:
        ends = [[min(0.0, least), max(0.0, most)] for least, most in ends]
    lowest, highest = sum(least for least, _ in ends), sum(most for _, most in ends)
    clamped = (max(-clamp, min(clamp, raw)) for raw in (lowest, highest))
    first, last = (normalise(raw, low=low, high=high) for raw in clamped)
    return first, last
