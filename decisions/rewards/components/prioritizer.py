"""Components of the PRIORITIZER agent: whether the recommended item was taken, done, and the right one to take. PURE.

What the proxies read of the state: `todoItems` with id, title, priority, energy, opusId and swimlane; `userContext`
with energy and lastItem. Energy is a number from 0 to 1 or LOW, MEDIUM, HIGH. Where the state lacks it, the value is
unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from decisions.rewards.components.component import Component, Parameters
from decisions.rewards.components.facts import Facts, Group
from decisions.rewards.components.payoffs import LARGEST_MEASURE, acceptance, between, ended, paid
from decisions.rewards.components.texts import all_texts, content_words, covered, field, items, text

CONTENT: frozenset[Group] = frozenset({"content"})
LEVELS: Mapping[str, float] = {"LOW": 0.0, "MEDIUM": 0.5, "HIGH": 1.0}


def level(value: Any) -> float | None:
    """LOW, MEDIUM and HIGH as 0, 0.5 and 1; a number from 0 to 1 as it is; None for anything else."""
    if isinstance(value, str):
        return LEVELS.get(value.upper())
    if isinstance(value, (int, float)) and 0.0 <= value <= 1.0:
        return float(value)
    return None


def chosen_and_others(facts: Facts) -> tuple[Mapping[str, Any], list[Any]] | None:
    """The recommended item as the state has it, and the other open ones; None where it is not among them."""
    wanted = field(facts.action, "recommended_item_id")
    chosen, others = None, []
    for one in items(field(facts.state, "todoItems")):
        if chosen is None and wanted is not None and field(one, "id") == wanted:
            chosen = one
        else:
            others.append(one)
    return None if chosen is None else (chosen, others)


def completed(facts: Facts, parameters: Parameters) -> bool | None:
    """Whether the recommended item ended as DONE; None while it is open."""
    end = ended(facts)
    return None if end is None else end == "DONE"


def on_time(facts: Facts, parameters: Parameters) -> bool | None:
    """Whether the recommended item was DONE below `quick_ratio` of the expected minutes."""
    ratio = facts.number("time_ratio", low=0.0, high=LARGEST_MEASURE)
    if ratio is None:
        return None
    return ended(facts) != "COLD_STORAGE" and ratio < float(parameters["quick_ratio"])


def strategic_fit(facts: Facts, parameters: Parameters) -> float | None:
    """m is the alignment that the item's end reported; before that, the share of the content words of its title (or
    name) that occur in `userContext`, where goals stand."""
    alignment = facts.number("alignment", low=0.0, high=1.0)
    if alignment is not None:
        return alignment
    both = chosen_and_others(facts)
    goals = set().union(*(content_words(one) for one in all_texts(field(facts.state, "userContext"))))
    if both is None or not goals:
        return None
    return covered(content_words(text(field(both[0], "title")) or text(field(both[0], "name"))), goals)


def left_lying(facts: Facts, parameters: Parameters) -> float | None:
    """m is how far the priority of the recommended item lies below the highest one that was left: LOW, MEDIUM and HIGH
    count 0, 0.5 and 1, and an item without a priority is MEDIUM. 0 where it was the only one."""
    both = chosen_and_others(facts)
    if both is None:
        return None
    own, *others = (0.5 if (found := level(field(one, "priority"))) is None else found for one in (both[0], *both[1]))
    return max(0.0, max(others, default=0.0) - own)


def energy_match(facts: Facts, parameters: Parameters) -> float | None:
    """m = 1 − |the item's `energy` − the person's `userContext.energy`|."""
    both = chosen_and_others(facts)
    has = level(field(field(facts.state, "userContext"), "energy"))
    takes = None if both is None else level(field(both[0], "energy"))
    return None if has is None or takes is None else 1.0 - abs(takes - has)


def flow(facts: Facts, parameters: Parameters) -> float | None:
    """m = 1 where the item is of the same project (`opusId`) as `userContext.lastItem`, `same_swimlane` where only the
    swimlane is the same, else 0: changing the subject costs (Leroy 2009, "Why is it so hard to do my work?")."""
    both = chosen_and_others(facts)
    last = field(field(facts.state, "userContext"), "lastItem")
    if both is None or not isinstance(last, Mapping):
        return None
    if (project := field(last, "opusId")) is not None and project == field(both[0], "opusId"):
        return 1.0
    if (lane := field(last, "swimlane")) is not None and lane == field(both[0], "swimlane"):
        return min(1.0, max(0.0, float(parameters["same_swimlane"])))
    return 0.0


COMPONENTS: tuple[Component, ...] = (
    Component(
        "prioritizer.acceptance",
        "immediate",
        acceptance,
        "the person took the recommended item",
        -0.8,
        1.0,
        right="confirmed",
        wrong="corrected",
        metrics=("verdict",),
        parameters={"confirmed": 1.0, "corrected": -0.5, "overridden": -0.8, "ignored": 0.0},
        bounds=between("confirmed", "corrected", "overridden", "ignored"),
    ),
    paid(
        "prioritizer.completion",
        "delayed",
        "the recommended item was done",
        1.0,
        weight=1.0,
        metric="completed",
        metrics=("completion",),
        find=completed,
        yes_or_no=True,
    ),
    paid(
        "prioritizer.time",
        "delayed",
        "it was done in the expected time",
        0.5,
        weight=0.5,
        metric="on_time",
        metrics=("time_ratio", "completion"),
        find=on_time,
        yes_or_no=True,
        parameters={"quick_ratio": 1.2},
    ),
    paid(
        "prioritizer.strategic_fit",
        "strategic",
        "how well the item serves the person's goals",
        0.3,
        weight=0.8,
        metric="strategic_fit",
        metrics=("alignment",),
        find=strategic_fit,
        reads=CONTENT,
        proxy="words shared with the person's context, not progress towards a goal",
    ),
    paid(
        "prioritizer.opportunity_cost",
        "strategic",
        "more urgent work that was left",
        -0.2,
        weight=0.3,
        metric="opportunity_cost",
        find=left_lying,
        reads=CONTENT,
        proxy="stated priorities, not the worth of what was left",
    ),
    paid(
        "prioritizer.energy",
        "immediate",
        "the item suits the person's energy",
        0.2,
        weight=0.2,
        metric="energy_match",
        find=energy_match,
        reads=CONTENT,
        proxy="two stated levels, not how the person got on with it",
    ),
    paid(
        "prioritizer.flow",
        "immediate",
        "the item continues what the person was doing",
        0.2,
        weight=0.2,
        metric="flow",
        find=flow,
        reads=CONTENT,
        parameters={"same_swimlane": 0.5},
        proxy="the same project or swimlane, not an undisturbed train of thought",
    ),
)
