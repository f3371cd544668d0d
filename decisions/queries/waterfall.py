"""A decision's reward as a waterfall: what each component added, from 0 to the raw sum, and what is still open."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from decisions.models import Decision, Reward, RewardSpec
from decisions.queries.component_states import (
    ENDS,
    Entry,
    State,
    adds,
    find_share,
    find_state,
    read_entries,
    value_of,
)

NARROWEST = 0.75
"""Percent of the axis: so much of a bar can be seen, also of a part that is 0."""


@dataclass(frozen=True, slots=True)
class Part:
    """One component. `value` is its own, `credit` what the decision is credited with of its episode's, `counts` what is
    added. `begins` and `ends` are sums; `x` and `width` place the bar between them, in percent."""

    entry: Entry
    state: State
    value: float | None
    credit: float | None
    counts: float | None
    why: str
    until: dt.datetime | None
    begins: float
    ends: float
    x: str = ""
    width: str = ""

    @property
    def drawn(self) -> bool:
        return self.state in ENDS


@dataclass(frozen=True, slots=True)
class Waterfall:
    """`sum` is of all parts; `raw` what is left of it by the clamp; `value` in [0, 1]. The last two are None where a
    component failed, or nothing is known. `share`: what every part is multiplied by, above 1 where the known components
    share the weight of the others. `zero`, `x` and `width` are percentages of the axis."""

    parts: Sequence[Part]
    spec: RewardSpec
    share: float
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
    entries = read_entries(spec)
    share = find_share(spec, entries, stored)
    for entry in entries:
        part = _part(entry, stored.get(entry.name), decision, total, share, now)
        total = part.ends
        parts.append(part)
    low, high = _axis(parts)
    raw = reward.raw if reward is not None else None
    x, width = _place(0.0, total if raw is None else raw, low, high)
    return Waterfall(
        parts=tuple(_drawn(parts, low, high)),
        spec=spec,
        share=share,
        sum=total,
        raw=raw,
        value=reward.value if reward is not None else None,
        zero=f"{100 * (0.0 - low) / (high - low):.2f}%",
        x=x,
        width=width,
    )


def _part(entry: Entry, stored: Any, decision: Decision, begins: float, share: float, now: dt.datetime) -> Part:
    state = find_state(entry, stored, decision.recorded_at, now)
    value = adds(entry, stored) if state in ENDS else None
    added = None if value is None else value * share
    return Part(
        entry=entry,
        state=state,
        value=value_of(stored),
        credit=value_of(stored, "credit"),
        counts=added,
        why=str(stored["error"]) if state == "failed" else "",
        until=None if entry.window is None else decision.recorded_at + entry.window,
        begins=begins,
        ends=begins + (added or 0.0),
    )


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
