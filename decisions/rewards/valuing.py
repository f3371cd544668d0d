"""Values the facts of a decision by a reward spec: components, their weighted sum, and the reward in [0, 1]. PURE.

The ledger's calculation, outcomes of experiments and what-if previews all come here; the engine values fresh decisions
with `total`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from decisions.rewards.components import ComponentError, Facts, Group, Parameters
from decisions.rewards.components.component import ComponentFunction
from decisions.rewards.components.rules import component_of
from decisions.rewards.credit import credit

DAY = 86_400.0
LARGEST_VALUE = 1e9
"""A component's value further from 0 is taken for a fault."""
MOST_REASON = 300
"""Characters of a failure's reason that are kept."""
UNKNOWN: Mapping[str, str] = {
    "left_out": "A component without a value adds nothing to the sum.",
    "renormalised": "The components with a value share the weight of those without one.",
}
"""What a spec does with components that have no value, for people."""


@dataclass(frozen=True, slots=True)
class Line:
    """One component of a plan. After `window` seconds without a value `missing` counts; None leaves it out."""

    name: str
    weight: float
    function: ComponentFunction
    parameters: Parameters
    window: float | None = None
    missing: float | None = None
    measured: bool = False
    episode: bool = False

    @property
    def fills_in(self) -> bool:
        """Whether time alone can give it a value."""
        return self.window is not None and self.missing is not None


@dataclass(frozen=True, slots=True)
class Valued:
    """`components`: by name {"value": x}, {"value": x, "missing": true} where the window closed without one, {"value":
    x, "credit": c} where the decision is credited with another number than the episode's, or {"error": why}; what may
    still come is left out. `raw` and `value` are None where a component failed or nothing is known. `unmeasured`:
    components whose measuring job has not run."""

    components: Mapping[str, Mapping[str, Any]]
    raw: float | None
    value: float | None
    unmeasured: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A reward spec, ready to value facts. `raw` is clamped to ±clamp; [low, high] is mapped to [0, 1].

    With `unknown` "renormalised" the sum over the components that have a value is multiplied by Σ |w| over all of them
    / Σ |w| over those with a value: so an unknown component is not a 0 among them. `missing` of a component is a value.
    """

    lines: Sequence[Line]
    clamp: float
    low: float
    high: float
    unknown: str
    reads: frozenset[Group]
    credit: str
    discount: float
    windows: tuple[float, ...]
    """Seconds after which a component that has no value gets one."""
    without_feedback: bool
    """Whether a decision can have a reward before any feedback on it."""
    judges: frozenset[str] | None = None
    """Metrics by which feedback from judge models counts; None for all."""

    @property
    def shares_credit(self) -> bool:
        """Whether a decision's reward depends on its place in the episode, or on other episodes."""
        return self.credit != "equal" and any(line.episode for line in self.lines)

    @property
    def compares(self) -> bool:
        return self.shares_credit and self.credit == "leave_one_out"

    def value(self, facts: Facts) -> Valued:
        components: dict[str, Mapping[str, Any]] = {}
        unmeasured: list[str] = []
        raw, known, failed = 0.0, False, False
        weighed: list[float] = []
        for line in self.lines:
            try:
                value = line.function(facts, line.parameters)
                if value is not None and not abs(value) <= LARGEST_VALUE:  # NaN too
                    raise ComponentError(f"gave {value}, which cannot count in a reward")
            except ComponentError as error:
                components[line.name] = {"error": str(error)[:MOST_REASON]}
                failed = True
                continue
            except Exception as error:  # noqa: BLE001 - a team's own fault is an error, and stops no other decision
                components[line.name] = {"error": f"{type(error).__name__}: {error}"[:MOST_REASON]}
                failed = True
                continue
            if value is None and line.measured:
                unmeasured.append(line.name)
            if value is not None:
                told: dict[str, Any] = {"value": value}
                if line.episode and self.credit != "equal":
                    value = self._credit(line, value, facts)
                    if value is None:
                        continue
                    told["credit"] = value
                components[line.name] = told
            elif line.missing is not None and line.window is not None and facts.age >= line.window:
                value = line.missing
                components[line.name] = {"value": value, "missing": True}
            else:
                continue
            known = True
            raw += line.weight * value
            weighed.append(line.weight)
        if failed or not known:
            return Valued(components, None, None, unmeasured)
        if len(weighed) < len(self.lines):
            raw *= share_weights(self.unknown, [line.weight for line in self.lines], weighed)
        raw = max(-self.clamp, min(self.clamp, raw))
        return Valued(components, raw, normalise(raw, low=self.low, high=self.high), unmeasured)

    def _credit(self, line: Line, value: float, facts: Facts) -> float | None:
        """What the decision is credited with. Another episode in which the component fails or has no value is no
        comparison."""
        others = []
        for trace in facts.others:
            try:
                other = line.function(Facts(trace=trace), line.parameters)
            except Exception:  # noqa: BLE001, S112 - its own decisions carry the error
                continue
            if other is not None:
                others.append(other)
        return credit(self.credit, value, place=facts.place, count=facts.count, discount=self.discount, others=others)


def make_plan(
    components: Sequence[Mapping[str, Any]],
    *,
    clamp: float,
    low: float,
    high: float,
    unknown: str = "left_out",
    credit: str = "equal",
    discount: float = 1.0,
    judges: frozenset[str] | None = None,
) -> Plan:
    """From a spec's stored components. Raises KeyError for a component that is not installed any more."""
    lines, reads, without_feedback = [], set[Group](), False
    for told in components:
        component = component_of(told)
        days = told.get("window_days", component.window_days)
        lines.append(
            Line(
                name=component.name,
                weight=float(told["weight"]),
                function=component.function,
                parameters={**component.parameters, **told.get("parameters", {})},
                window=None if days is None else days * DAY,
                missing=told.get("missing", component.missing),
                measured=component.measured,
                episode=component.scope == "episode",
            )
        )
        reads |= component.reads
        without_feedback |= bool(component.reads) or component.measured or lines[-1].fills_in
    windows = tuple(sorted({line.window for line in lines if line.fills_in and line.window is not None}))
    return Plan(lines, clamp, low, high, unknown, frozenset(reads), credit, discount, windows, without_feedback, judges)


def share_weights(unknown: str, weights: Sequence[float], known: Sequence[float]) -> float:
    """What the sum over components of the `known` weights, among all `weights`, is multiplied by; 1 unless the spec
    renormalises."""
    weighed = sum(map(abs, known))
    return sum(map(abs, weights)) / weighed if unknown == "renormalised" and weighed > 0 else 1.0


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


def attainable_range(
    components: Sequence[Mapping[str, Any]], *, clamp: float, low: float, high: float, unknown: str = "left_out"
) -> tuple[float, float]:
    """The rewards in [0, 1] between which every reward of these stored components lies, after clamping and `normalise`.

    One component has always a value where there is a reward; of several each may be missing, which adds nothing, or
    by `unknown` leaves its weight to the others.
    With the verdict alone at weight 1 it is [0.3, 0.75] of the default scale. Raises KeyError for unknown names.
    """
    ends = raw_range(components, clamp=clamp, unknown=unknown)
    first, last = (normalise(raw, low=low, high=high) for raw in ends)
    return first, last


def raw_range(
    components: Sequence[Mapping[str, Any]], *, clamp: float, unknown: str = "left_out"
) -> tuple[float, float]:
    """As `attainable_range`, before the map to [0, 1]."""
    if unknown == "renormalised":
        ends = _mean_ends(components)
        return max(-clamp, min(ends)), min(clamp, max(ends))
    pairs = []
    for told in components:
        values = component_of(told).attainable(told.get("parameters", {}))
        least, most = sorted(float(told["weight"]) * value for value in values)
        pairs.append((least, most) if len(components) == 1 else (min(0.0, least), max(0.0, most)))
    first, last = (max(-clamp, min(clamp, sum(values))) for values in zip(*pairs, strict=True))
    return first, last


def _mean_ends(components: Sequence[Mapping[str, Any]]) -> list[float]:
    """The sum is a weighted mean times Σ |w|: all of that may come to one component, and none to those of weight 0."""
    weights = [float(told["weight"]) for told in components]
    whole = sum(map(abs, weights))
    ends = [] if all(weights) else [0.0]
    for told, weight in zip(components, weights, strict=True):
        if weight:
            values = component_of(told).attainable(told.get("parameters", {}))
            ends += [value * math.copysign(whole, weight) for value in values]
    return ends
