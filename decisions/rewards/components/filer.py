"""Components of the FILER agent: how the item that it filed went. PURE."""

from __future__ import annotations

from decisions.rewards.components.component import Component, Parameters
from decisions.rewards.components.facts import Facts
from decisions.rewards.components.payoffs import (
    LARGEST_MEASURE,
    WINDOW_DAYS,
    between,
    count_bounds,
    ended,
    paid,
    paid_by_count,
)


def completion(facts: Facts, parameters: Parameters) -> float | None:
    """`done` for an item that was completed, `after_rework` if it was opened again before, `cold_storage` for one that
    was put away; None while it is open."""
    end = ended(facts)
    if end is None:
        return None
    if end == "COLD_STORAGE":
        return float(parameters["cold_storage"])
    return float(parameters["after_rework" if facts.number("cycles", low=0.0, high=LARGEST_MEASURE) else "done"])


def rework(facts: Facts, parameters: Parameters) -> float | None:
    """`per_cycle` · how often the item was opened again; beyond `most_cycles` nothing is added, unless that is 0."""
    cycles = facts.number("cycles", low=0.0, high=LARGEST_MEASURE)
    if cycles is None:
        return None
    return paid_by_count(cycles, float(parameters["per_cycle"]), float(parameters["most_cycles"]))


def time(facts: Facts, parameters: Parameters) -> float | None:
    """`quick` below `quick_ratio` of the expected minutes, `slow` above `slow_ratio`, else 0. An item in
    COLD_STORAGE has no time to completion: 0, or putting things away at once would pay."""
    ratio = facts.number("time_ratio", low=0.0, high=LARGEST_MEASURE)
    if ratio is None:
        return None
    if ended(facts) == "COLD_STORAGE":
        return 0.0
    if ratio < float(parameters["quick_ratio"]):
        return float(parameters["quick"])
    return float(parameters["slow"]) if ratio > float(parameters["slow_ratio"]) else 0.0


def lost_time(facts: Facts, parameters: Parameters) -> float | None:
    """m is the time that other work did not get, in units of what the item was expected to take, at most 1: for an item
    in COLD_STORAGE all that was spent on it (time_ratio), for one that is DONE what went beyond (time_ratio − 1).

    The cost of a choice is the best that it displaced; here each minute counts alike, whatever it displaced.
    """
    end, ratio = ended(facts), facts.number("time_ratio", low=0.0, high=LARGEST_MEASURE)
    if end is None or ratio is None:
        return None
    return min(1.0, max(0.0, ratio if end == "COLD_STORAGE" else ratio - 1.0))


COMPONENTS: tuple[Component, ...] = (
    Component(
        "filer.completion",
        "delayed",
        completion,
        "how the item ended",
        -0.3,
        1.0,
        weight=0.5,
        metrics=("completion", "cycles"),
        window_days=WINDOW_DAYS["delayed"],
        parameters={"done": 1.0, "after_rework": 0.5, "cold_storage": -0.3},
        bounds=between("done", "after_rework", "cold_storage"),
    ),
    paid("filer.blocked", "delayed", "the item was blocked", -1.0, weight=0.3, metric="blocked", yes_or_no=True),
    Component(
        "filer.rework",
        "delayed",
        rework,
        "how often the item was opened again",
        -0.2 * LARGEST_MEASURE,
        0.0,
        weight=0.2,
        metrics=("cycles",),
        window_days=WINDOW_DAYS["delayed"],
        parameters={"per_cycle": -0.2, "most_cycles": 0.0},
        bounds=count_bounds("per_cycle", "most_cycles"),
    ),
    Component(
        "filer.time",
        "delayed",
        time,
        "time spent, against what was expected",
        -0.5,
        0.5,
        weight=0.3,
        metrics=("time_ratio", "completion"),
        window_days=WINDOW_DAYS["delayed"],
        parameters={"quick": 0.5, "quick_ratio": 1.2, "slow": -0.5, "slow_ratio": 2.0},
        bounds=between("quick", "slow"),
    ),
    paid("filer.alignment", "strategic", "how well the item served a goal", 0.5, weight=0.4, metric="alignment"),
    paid(
        "filer.opportunity_cost",
        "strategic",
        "time that other work did not get",
        -1.0,
        weight=0.2,
        metric="opportunity_cost",
        metrics=("completion", "time_ratio"),
        find=lost_time,
        proxy="time over expectation, not the worth of the work that it displaced",
    ),
)
