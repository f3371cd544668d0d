"""Places of lines, bands and marks of the charts of rewards and of action quality, which the server draws as SVG.

Lines and bands are paths in a box of 1000 by 100; marks and slots are in percent of the chart, so that texts keep
their shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from decisions.queries.reward_summary import Lag, RewardSummary, Stretch
from workspaces.templatetags import show

WIDE, HIGH = 1000.0, 100.0
FIRST_SECONDS = 10.0
"""The axis of lags is logarithmic; it begins here."""
MOST_STEPS = 400
"""Of the lags' curve that are drawn."""
_TICKS = ((60, "1 min"), (3_600, "1 h"), (86_400, "1 day"), (604_800, "7 days"), (2_592_000, "30 days"))


@dataclass(frozen=True, slots=True)
class Mark:
    """A text at a place of an axis, in percent."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A stretch: its column, and its decisions as a bar whose height is relative to the largest."""

    stretch: Stretch
    x: str
    width: str
    y: str
    height: str


@dataclass(frozen=True, slots=True)
class Plot:
    """`dots` are where a value stands alone between two gaps."""

    line: str
    band: str
    dots: str
    ys: tuple[Mark, ...]
    xs: tuple[Mark, ...] = ()
    slots: tuple[Slot, ...] = ()


def plot_rewards(summary: RewardSummary) -> Plot | None:
    """The mean of each stretch with its interval; None where there is no reward."""
    return plot_stretches(summary.stretches)


def plot_stretches(stretches: Sequence[Stretch], tell: Callable[[Any], str] = show.reward) -> Plot | None:
    """Of means in [0, 1]; None where no stretch has one. `tell`: how the axis writes them."""
    known = [one for one in stretches if one.mean is not None]
    if not known:
        return None
    ends = [end for one in known for end in (one.mean, one.low, one.high) if end is not None]
    low, high = math.floor(min(ends) * 10) / 10, math.ceil(max(ends) * 10) / 10
    if high - low < 0.2:
        low, high = max(0.0, low - 0.1), min(1.0, high + 0.1)

    def y(value: float) -> float:
        return HIGH * (high - value) / (high - low)

    def x(place: int) -> float:
        return WIDE * (place + 0.5) / len(stretches)

    lines, bands, dots = [], [], []
    for run in _runs([one.mean for one in stretches]):
        points = [(x(place), y(stretches[place].mean or 0.0)) for place in run]
        lines.append(_path(points))
        if len(run) == 1:
            dots.append(f"{_path(points)} h0")
    for run in _runs([one.low for one in stretches]):
        upper = [(x(place), y(stretches[place].high or 0.0)) for place in run]
        lower = [(x(place), y(stretches[place].low or 0.0)) for place in run]
        if len(run) == 1:  # as wide as a dot
            upper, lower = ([(at - 3, value), (at + 3, value)] for ((at, value),) in (upper, lower))
        bands.append(_path([*upper, *reversed(lower)]) + " Z")
    return Plot(
        line=" ".join(lines),
        band=" ".join(bands),
        dots=" ".join(dots),
        ys=tuple(Mark(f"{y(value):.2f}%", tell(value)) for value in (low, (low + high) / 2, high)),
        slots=tuple(_slots(stretches)),
    )


def _slots(stretches: Sequence[Stretch]) -> list[Slot]:
    highest, width = max(max(one.looked_at for one in stretches), 1), 100 / len(stretches)
    return [
        Slot(one, f"{place * width:.3f}%", f"{width:.3f}%", f"{100 - share:.2f}%", f"{share:.2f}%")
        for place, one in enumerate(stretches)
        for share in (100 * one.looked_at / highest,)
    ]


def plot_lag(lag: Lag) -> Plot | None:
    """The share that is still without a verdict, by the time since the decision; None where nothing has one."""
    curve = lag.curve
    if not curve.events:
        return None
    last = max(curve.last, 60.0)
    span = math.log(last / FIRST_SECONDS)

    def x(seconds: float) -> float:
        return WIDE * math.log(max(seconds, FIRST_SECONDS) / FIRST_SECONDS) / span

    stride = math.ceil(curve.times.size / MOST_STEPS)
    places = [*range(0, curve.times.size - 1, stride), curve.times.size - 1]
    at = [x(float(curve.times[place])) for place in places]

    def steps(values: Sequence[float]) -> list[tuple[float, float]]:
        """From 1 at the left, down at each place, on to the right edge."""
        points, before = [(0.0, 0.0)], 0.0
        for moment, place in zip(at, places, strict=True):
            now = HIGH * (1.0 - float(values[place]))
            points += [(moment, before), (moment, now)]
            before = now
        return [*points, (WIDE, before)]

    high, low = steps(curve.high.tolist()), steps(curve.low.tolist())
    return Plot(
        line=_path(steps(curve.survival.tolist())),
        band=_path([*high, *reversed(low)]) + " Z",
        dots="",
        ys=tuple(Mark(f"{100 - share}%", f"{share}%") for share in (0, 50, 100)),
        xs=tuple(Mark(f"{x(size) / 10:.2f}%", text) for size, text in _TICKS if FIRST_SECONDS < size < 0.97 * last),
    )


def _runs(values: Sequence[float | None]) -> list[list[int]]:
    """Places of values that stand beside each other."""
    runs: list[list[int]] = []
    for place, value in enumerate(values):
        if value is None:
            continue
        if runs and runs[-1][-1] == place - 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + " L".join(f"{x:.1f},{y:.2f}" for x, y in points)
