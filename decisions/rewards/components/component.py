"""What a reward component is: a small function of facts, with its horizon, range and defaults. PURE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from decisions.rewards.components.facts import Facts, Group

Horizon = Literal["immediate", "delayed", "strategic"]
Scope = Literal["decision", "episode"]
Parameter = float | str | bool
Parameters = Mapping[str, Parameter]
Bounds = Callable[[Parameters], tuple[float, float]]


LARGEST = 1e6
"""A parameter beyond it is a mistake."""


def describe_range(low: float, high: float) -> str:
    """For people: "-0.5 to 1", or "0 or less" where an end is beyond what a parameter can be."""
    if low < -LARGEST:
        return f"{high:g} or less" if high <= LARGEST else "any number"
    return f"{low:g} to {high:g}" if high <= LARGEST else f"{low:g} or more"


class ComponentFunction(Protocol):
    def __call__(self, facts: Facts, parameters: Parameters, /) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Component:
    """One row of the table.

    `function` returns the value before weighting, or None while nothing is known; it raises ComponentError where it
    cannot have a value: a failure is never the number 0. It gets every parameter, the defaults included.

    name: `verdict`, or `filer.completion` where it belongs to one kind of agent. summary: for people, a phrase.
    low, high: the values it can have with the default parameters. weight: that of the default specs. scope: "episode"
    where it is worth the same to every decision of an episode. metrics: the measures that it reads. reads: groups of
    facts besides. window_days: after so many days without a value, *missing* is final and `missing` counts instead;
    None waits for ever, and what comes late still counts. bounds: low and high for other parameters. right, wrong: the
    values that say that the action was right, and that it was wrong, or the parameters that hold them; such a
    component can be the signal of a spec (`RewardSpec.signal`). binary: one of two values, nothing between. measured: a
    job of its own writes the value. proxy: what it only stands in for; empty where it measures what it is named after.
    """

    name: str
    horizon: Horizon
    function: ComponentFunction
    summary: str
    low: float
    high: float
    weight: float = 1.0
    scope: Scope = "decision"
    metrics: tuple[str, ...] = ()
    reads: frozenset[Group] = frozenset()
    window_days: float | None = None
    missing: float | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    right: float | str | None = None
    wrong: float | str | None = None
    bounds: Bounds | None = None
    binary: bool = False
    measured: bool = False
    proxy: str = ""

    def parameter_faults(self, parameters: Parameters) -> list[str]:
        """What is wrong with parameters that somebody gave: unknown names, other types than the default's, numbers that
        are not finite or beyond ±1e6. Empty where all is well."""
        faults = []
        for name, value in parameters.items():
            default = self.parameters.get(name)
            if default is None:
                faults.append(f"{name} is unknown; known: {', '.join(self.parameters) or 'none'}")
            elif isinstance(default, (bool, str)):
                if type(value) is not type(default):
                    faults.append(f"{name} must be {'true or false' if isinstance(default, bool) else 'a text'}")
            elif isinstance(value, (bool, str)) or not -LARGEST <= value <= LARGEST:
                faults.append(f"{name} must be a number from -{LARGEST:g} to {LARGEST:g}")
        return faults

    def attainable(self, parameters: Parameters | None = None) -> tuple[float, float]:
        """The lowest and the highest value with these parameters in place of the defaults."""
        if self.bounds is None or not parameters:
            return self.low, self.high
        return self.bounds({**self.parameters, **parameters})

    def right_and_wrong(self, parameters: Parameters) -> tuple[float, float] | None:
        """The values that say right and wrong with these parameters; None for a component that says neither."""
        if self.right is None or self.wrong is None:
            return None
        known = {**self.parameters, **parameters}
        right, wrong = (float(known[end] if isinstance(end, str) else end) for end in (self.right, self.wrong))
        return right, wrong
