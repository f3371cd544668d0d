"""What became of each component of a reward spec on one decision: a value, or why there is none yet."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from decisions.models import RewardSpec
from decisions.rewards.components import Component
from decisions.rewards.components.rules import InvalidRule, component_of
from decisions.rewards.valuing import share_weights

State = Literal["value", "missing", "failed", "maturing", "due", "closed", "unmeasured", "waiting"]
"""`missing`: the window closed without a value, and something counts instead. `maturing`: it has no value, and its
window is open. `due`: its window has closed since the reward was calculated. `closed`: its window has closed, and
nothing counts instead. `unmeasured`: a job has yet to measure it. `waiting`: it has no value, and no window."""
ENDS: tuple[State, ...] = ("value", "missing")
"""With a part of the reward."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One component of a spec. `window`: how long until missing is final; `instead`: what counts then. `verdict`: it
    reads verdicts. `horizon` is empty where the component is not installed any more."""

    name: str
    weight: float
    summary: str
    horizon: str
    window: dt.timedelta | None
    instead: float | None
    measured: bool
    verdict: bool

    @property
    def means(self) -> str:
        return f"{self.summary} ({self.horizon})" if self.horizon else self.summary


def read_entries(spec: RewardSpec) -> tuple[Entry, ...]:
    """In the order of the spec."""
    return tuple(_entry(told) for told in spec.components)


def _entry(told: Mapping[str, Any]) -> Entry:
    component: Component | None
    try:
        component = component_of(told)
    except (KeyError, InvalidRule):
        component = None
    days = told.get("window_days", component.window_days if component else None)
    return Entry(
        name=str(told["name"]),
        weight=float(told["weight"]),
        summary=component.summary if component else "The component is not installed any more.",
        horizon=component.horizon if component else "",
        window=None if days is None else dt.timedelta(days=days),
        instead=told.get("missing", component.missing if component else None),
        measured=component is not None and component.measured,
        verdict=component is not None and "verdict" in component.metrics,
    )


def find_state(entry: Entry, stored: Any, recorded_at: dt.datetime, now: dt.datetime) -> State:
    """`stored` is what the decision's reward has of the component; None for nothing."""
    if isinstance(stored, Mapping):
        if "error" in stored:
            return "failed"
        if value_of(stored) is not None:
            return "missing" if stored.get("missing") else "value"
    if entry.measured:
        return "unmeasured"
    if entry.window is None:
        return "waiting"
    if now < recorded_at + entry.window:
        return "maturing"
    return "closed" if entry.instead is None else "due"


def value_of(stored: Any, key: str = "value") -> float | None:
    """A number that a reward has of a component: its `value`, or the `credit` that counts in its place."""
    value = stored.get(key) if isinstance(stored, Mapping) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def find_share(spec: RewardSpec, entries: Sequence[Entry], components: Mapping[str, Any]) -> float:
    """What the sum over a decision's `components` is multiplied by: above 1 where those that are known share the weight
    of the others, else 1."""
    known = [entry.weight for entry in entries if adds(entry, components.get(entry.name)) is not None]
    return share_weights(spec.unknown, [entry.weight for entry in entries], known)


def adds(entry: Entry, stored: Any) -> float | None:
    """What the component adds to the sum; None where it adds nothing."""
    credit = value_of(stored, "credit")
    value = value_of(stored) if credit is None else credit
    return None if value is None else entry.weight * value
