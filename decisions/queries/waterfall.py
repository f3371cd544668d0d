"""A decision's reward as a waterfall: what each component added, from 0 to the raw sum, and what is still open."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from decisions.models import Decision, Reward, RewardSpec
from decisions.rewards.components import Component
from decisions.rewards.components.rules import InvalidRule, component_of

State = Literal["value", "missing", "failed", "maturing", "due", "closed", "unmeasured", "waiting"]
"""`missing`: the window closed without a value, and something counts instead. `maturing`: it has no value, and its
window is open. `due`: its window has closed since the reward was calculated. `closed`: its window has closed, and
nothing counts instead. `unmeasured`: a job has yet to measure it. `waiting`: it has no value, and no window."""
ENDS: tuple[State, ...] = ("value", "missing")
"""With a part of the reward."""
NARROWEST = 0.75
"""Percent of the axis: so much of a bar can be seen, also of a part that is 0."""


@dataclass(frozen=True, slots=True)
class Part:
    """One component. `value` is its own, `credit` what the decision is credited with of its episode's, `counts` the
    weight times that. `begins` and `ends` are sums; `x` and `width` place the bar between them, in percent."""

    name: str
    weight: float
    state: State
    value: float | None = None
    credit: float | None = None
    why: str = ""
    until: dt.datetime | None = None
    instead: float | None = None
    summary: str = ""
    horizon: str = ""
    begins: float = 0.0
    ends: float = 0.0
    x: str = ""
    width: str = ""

    @property
    def drawn(self) -> bool:
        return self.state in ENDS

    @property
    def counts(self) -> float | None:
        shown = self.value if self.credit is None else self.credit
        return None if shown is None else self.weight * shown


@dataclass(frozen=True, slots=True)
class Waterfall:
    """`sum` is of all parts; `raw` what is left of it by the clamp; `value` in [0, 1]. The last two are None where a
    component failed, or nothing is known. `zero`, `x` and `width` are percentages of the axis."""

    parts: Sequence[Part]
    spec: RewardSpec
    sum: float
    raw: float | None
    value: float | None
    zero: str
    x: str
    width: str

    @property
    def clamped(self) -> bool:
        return self.raw is not None and abs(self.sum) > self.spec.clamp

    @property
    def failed(self) -> bool:
        return any(part.state == "failed" for part in self.parts)


def draw_waterfall(decision: Decision, spec: RewardSpec, reward: Reward | None, *, now: dt.datetime) -> Waterfall:
    """In the order of the spec. Without a reward every component is open."""
    stored: Mapping[str, Any] = reward.components if reward is not None else {}
    parts, total = [], 0.0
    for told in spec.components:
        part = _part(told, stored.get(told["name"]), decision, now)
        added = part.counts if part.drawn else None
        parts.append(replace(part, begins=total, ends=total + (added or 0.0)))
        total += added or 0.0
    low, high = _axis(parts)
    raw = reward.raw if reward is not None else None
    x, width = _place(0.0, total if raw is None else raw, low, high)
    return Waterfall(
        parts=tuple(_drawn(parts, low, high)),
        spec=spec,
        sum=total,
        raw=raw,
        value=reward.value if reward is not None else None,
        zero=f"{100 * (0.0 - low) / (high - low):.2f}%",
        x=x,
        width=width,
    )


def _part(told: Mapping[str, Any], stored: Any, decision: Decision, now: dt.datetime) -> Part:
    component = find_component(told)
    part = Part(
        name=str(told["name"]),
        weight=float(told["weight"]),
        state="waiting",
        summary=component.summary if component else "The component is not installed any more.",
        horizon=component.horizon if component else "",
    )
    if isinstance(stored, Mapping):
        if "error" in stored:
            return replace(part, state="failed", why=str(stored["error"]))
        value, credit = _number(stored.get("value")), _number(stored.get("credit"))
        if value is not None:
            return replace(part, state="missing" if stored.get("missing") else "value", value=value, credit=credit)
    if component is None:
        return part
    if component.measured:
        return replace(part, state="unmeasured")
    days, instead = window_of(told, component)
    if days is None:
        return part
    until = decision.recorded_at + dt.timedelta(days=days)
    state: State = "maturing" if now < until else "closed" if instead is None else "due"
    return replace(part, state=state, until=until, instead=instead)


def find_component(told: Mapping[str, Any]) -> Component | None:
    """The component of one entry of a spec; None where it is not installed any more."""
    try:
        return component_of(told)
    except (KeyError, InvalidRule):
        return None


def window_of(told: Mapping[str, Any], component: Component) -> tuple[float | None, float | None]:
    """Days until missing is final, and what counts then, by an entry of a spec; None for neither."""
    return told.get("window_days", component.window_days), told.get("missing", component.missing)


def _axis(parts: Sequence[Part]) -> tuple[float, float]:
    sums = [0.0, *(part.ends for part in parts)]
    low, high = min(sums), max(sums)
    if low == high:
        return -1.0, 1.0
    room = 0.03 * (high - low)  # so that the line at 0 is inside
    return low - room, high + room


def _drawn(parts: Sequence[Part], low: float, high: float) -> Iterator[Part]:
    for part in parts:
        x, width = _place(part.begins, part.ends, low, high)
        yield replace(part, x=x, width=width) if part.drawn else part


def _place(begins: float, ends: float, low: float, high: float) -> tuple[str, str]:
    first, last = (min(1.0, max(0.0, (at - low) / (high - low))) for at in sorted((begins, ends)))
    width = max(100 * (last - first), NARROWEST)
    return f"{min(100 * first, 100 - width):.2f}%", f"{width:.2f}%"


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
