"""What most components are: a payoff times a measure from 0 to 1, which an app sent or facts show. PURE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from decisions.rewards.components.component import Bounds, Component, ComponentFunction, Horizon, Parameter, Parameters
from decisions.rewards.components.facts import ComponentError, Facts, Group

WINDOW_DAYS: Mapping[Horizon, float | None] = {"immediate": 7.0, "delayed": 30.0, "strategic": 90.0}
"""When a missing value becomes final, unless the row says otherwise."""
LARGEST_MEASURE = 1e9
"""Larger ones are broken counters."""
VERDICTS = ("confirmed", "corrected", "overridden", "ignored")
Measure = Callable[[Facts, Parameters], float | bool | None]


def between(*names: str) -> Bounds:
    """The range of a component whose values lie between 0 and these parameters."""

    def bounds(parameters: Parameters) -> tuple[float, float]:
        values = [0.0, *(float(parameters[name]) for name in names)]
        return min(values), max(values)

    return bounds


def paid_by_count(count: float, payoff: float, most: float) -> float:
    """`payoff` for each; beyond `most` nothing is added, unless `most` is 0."""
    return payoff * (min(count, most) if most > 0 else count) + 0.0  # never −0


def count_bounds(payoff: str, most: str) -> Bounds:
    """The range of `paid_by_count` with these parameters."""

    def bounds(parameters: Parameters) -> tuple[float, float]:
        end = paid_by_count(LARGEST_MEASURE, float(parameters[payoff]), float(parameters[most]))
        return min(0.0, end), max(0.0, end)

    return bounds


def acceptance(facts: Facts, parameters: Parameters) -> float | None:
    """The parameter that is named like the verdict; None before any."""
    verdict = facts.verdict
    if verdict is None:
        return None
    if not isinstance(verdict, str) or verdict not in VERDICTS:
        raise ComponentError(f"unknown verdict {str(verdict)[:40]}; known: {', '.join(VERDICTS)}")
    return float(parameters[verdict])


def ended(facts: Facts) -> Literal["DONE", "COLD_STORAGE"] | None:
    """How the item ended; None while it is open. Raises ComponentError for any other end."""
    end = facts.measures.get("completion")
    if end is None or end == "DONE" or end == "COLD_STORAGE":
        return end
    raise ComponentError(f"completion is {str(end)[:40]!r}, neither DONE nor COLD_STORAGE")


def paid(
    name: str,
    horizon: Horizon,
    summary: str,
    payoff: float,
    *,
    weight: float,
    metric: str,
    metrics: tuple[str, ...] = (),
    find: Measure | None = None,
    yes_or_no: bool = False,
    reads: frozenset[Group] = frozenset(),
    parameters: Mapping[str, Parameter] | None = None,
    proxy: str = "",
) -> Component:
    """The row of a component whose value is `payoff` · m, with m from 0 to 1, or true or false with `yes_or_no`.

    m is what was sent as `metric`; where nothing was, what `find` makes of the facts, which reads `metrics` and
    `reads`. None where neither knows.
    """

    def value(facts: Facts, given: Parameters) -> float | None:
        m = facts.flag(metric) if yes_or_no else facts.number(metric, low=0.0, high=1.0)
        if m is None and find is not None:
            m = find(facts, given)
        return None if m is None else float(given["payoff"]) * m + 0.0  # never −0

    value.__doc__ = find.__doc__ if find is not None else f"`payoff` · {metric}."
    function: ComponentFunction = value
    return Component(
        name,
        horizon,
        function,
        summary,
        min(0.0, payoff),
        max(0.0, payoff),
        weight=weight,
        metrics=(metric, *metrics),
        reads=reads,
        window_days=WINDOW_DAYS[horizon],
        parameters={"payoff": payoff, **(parameters or {})},
        bounds=between("payoff"),
        binary=yes_or_no,
        proxy=proxy,
    )
