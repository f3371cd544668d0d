"""Secondary measures and slices of an experiment: their plan, what is kept of them, and what they show.

They are exploratory: no rule reads them. `evidence` goes on with their tallies at each look;
`decisions.rewards.exploring` finds the values of the units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from models_registry.models import Experiment
from models_registry.statistics.exploratory import EMPTY, Tally, compare, tally_on
from models_registry.statistics.intervals import Interval
from workspaces.errors import FieldFault

MEASURES = {
    "latency_ms": "Latency in ms",
    "tokens": "Tokens per decision",
    "cost": "Cost per decision",
    "confidence": "Confidence",
    "decisions": "Decisions per unit",
}
"""Measures that every decision may tell, with their labels; others are names of reward components."""
MOST_SECONDARY, MOST_SLICES = 12, 5
LONGEST_NAME = 100
SLICE_VALUES = 8
"""Values of a field that have a slice of their own, the first that come; what else comes is one slice more, and units
without the field are another."""
LONGEST_VALUE = 40
OTHER, NONE = "(other)", "(none)"


@dataclass(frozen=True, slots=True)
class ExploredUnit:
    """A matured unit: its arm, P(treatment) of its phase, its outcome or None, its measures by name, and by field the
    value that its first decision's state had."""

    treated: bool
    treatment_share: float
    outcome: float | None
    secondary: Mapping[str, float] = field(default_factory=dict)
    slices: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tallies:
    """By measure; and by field and value, of the outcome."""

    secondary: dict[str, Tally] = field(default_factory=dict)
    slices: dict[str, dict[str, Tally]] = field(default_factory=dict)


def find_exploring_faults(secondary: Sequence[str], slices: Sequence[str]) -> list[FieldFault]:
    """Every fault of a plan's measures and slices, each under the name of its field."""
    faults = []
    for name, found, most in (("secondary", secondary, MOST_SECONDARY), ("slices", slices, MOST_SLICES)):
        if len(found) > most:
            faults.append(FieldFault(name, f"has {len(found)} names", f"at most {most}"))
        if len(set(found)) != len(found):
            faults.append(FieldFault(name, "repeats a name", "each name once"))
        if any(not one.strip() or len(one) > LONGEST_NAME for one in found):
            faults.append(FieldFault(name, "has a name that is empty or too long", f"1 to {LONGEST_NAME} characters"))
    return faults


def count_comparisons(secondary: Sequence[str], slices: Sequence[str]) -> int:
    """How many differences are looked at, at most: fixed when the experiment starts."""
    return len(secondary) + len(slices) * (SLICE_VALUES + 2)


def name_slice(value: object) -> str:
    """What a value of a state's field is called; fields that hold more than one value have none."""
    if value is None or isinstance(value, dict | list):
        return NONE
    text = "true" if value is True else "false" if value is False else str(value)
    return text if len(text) <= LONGEST_VALUE else OTHER


def go_on_exploring(experiment: Experiment, past: Tallies, units: Sequence[ExploredUnit]) -> Tallies:
    """The tallies after `units`, in exposure order. A unit on which a measure is not known says nothing about it."""
    secondary = {
        name: _tally(past.secondary.get(name, EMPTY), [(one, one.secondary.get(name)) for one in units])
        for name in experiment.secondary
    }
    rewarded = [one for one in units if one.outcome is not None]
    slices = {}
    for name in experiment.slices:
        tallies = dict(past.slices.get(name, {}))
        by_value: dict[str, list[tuple[ExploredUnit, float | None]]] = {}
        for one in rewarded:
            value = one.slices.get(name, NONE)
            own = len({*tallies, *by_value} - {OTHER, NONE})
            if value not in {*tallies, *by_value, NONE} and own >= SLICE_VALUES:
                value = OTHER
            by_value.setdefault(value, []).append((one, one.outcome))
        slices[name] = tallies | {value: _tally(tallies.get(value, EMPTY), found) for value, found in by_value.items()}
    return Tallies(secondary, slices)


def _tally(past: Tally, units: Iterable[tuple[ExploredUnit, float | None]]) -> Tally:
    known = [(one.treated, one.treatment_share, value) for one, value in units if value is not None]
    return tally_on(past, *np.array(known, dtype=np.float64).reshape(-1, 3).T)


@dataclass(frozen=True, slots=True)
class Explored:
    """A measure, or a slice of the outcome (`value` of the state's field `name`). interval: treatment minus control;
    None below 50 units an arm."""

    name: str
    label: str
    value: str | None
    tally: Tally
    interval: Interval | None


def list_explored(experiment: Experiment, tallies: Tallies) -> list[Explored]:
    """Measures in the order of the plan, then slices by field and size."""
    comparisons = count_comparisons(experiment.secondary, experiment.slices)
    found = []
    for name in experiment.secondary:
        tally = tallies.secondary.get(name, EMPTY)
        found.append(Explored(name, MEASURES.get(name, name), None, tally, compare(tally, comparisons)))
    for name in experiment.slices:
        sliced = sorted(tallies.slices.get(name, {}).items(), key=lambda pair: -pair[1].units)
        found += [Explored(name, name, value, tally, compare(tally, comparisons)) for value, tally in sliced]
    return found
