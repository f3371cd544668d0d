"""Components of the LIBRARIAN agent: which of its findings were right, and what it missed. PURE.

An app that learns of it later sends `conflict_prevented`, `false_positive`, `missed_issue` and `dependency_found`,
true or false. Where it did not, a person's verdict tells: the right findings are those of the correction, or the
action's own once it is confirmed. Two findings are the same when type and at least one related id agree (or neither
names an id).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from decisions.rewards.components.component import Component, Parameters
from decisions.rewards.components.facts import Facts, Group
from decisions.rewards.components.payoffs import paid
from decisions.rewards.components.texts import field, items

READS: frozenset[Group] = frozenset({"content", "correction"})
Finding = tuple[str, frozenset[str]]
JUDGED = "what a person said of the findings, not "


def findings(action: Any) -> list[Finding] | None:
    """None where the action holds no list of findings."""
    there = field(action, "findings")
    if not isinstance(there, (list, tuple)):
        return None
    return [
        (
            str(field(one, "type")),
            frozenset(related for related in items(field(one, "relatedIds")) if isinstance(related, str)),
        )
        for one in there
        if field(one, "type") is not None
    ]


def same(one: Finding, other: Finding) -> bool:
    return one[0] == other[0] and (bool(one[1] & other[1]) or not (one[1] or other[1]))


def found_and_right(facts: Facts) -> tuple[list[Finding], list[Finding]] | None:
    """What the agent found, and what it should have found; None where nobody said."""
    found, right = findings(facts.action), findings(facts.correction)
    if facts.verdict == "confirmed" and right is None:
        right = found
    return None if found is None or right is None else (found, right)


def confirmed(kind: str) -> Callable[[Facts, Parameters], bool | None]:
    def find(facts: Facts, parameters: Parameters) -> bool | None:
        both = found_and_right(facts)
        if both is None:
            return None
        found, right = both
        return any(one[0] == kind and any(same(one, other) for other in right) for one in found)

    find.__doc__ = f"Whether a {kind} that the agent found is among the right findings."
    return find


def false_positive(facts: Facts, parameters: Parameters) -> bool | None:
    """Whether the agent found something that is not among the right findings."""
    both = found_and_right(facts)
    return None if both is None else any(not any(same(one, other) for other in both[1]) for one in both[0])


def missed_issue(facts: Facts, parameters: Parameters) -> bool | None:
    """Whether a right finding is not among the agent's."""
    both = found_and_right(facts)
    return None if both is None else any(not any(same(one, other) for other in both[0]) for one in both[1])


COMPONENTS: tuple[Component, ...] = (
    paid(
        "librarian.conflict_prevented",
        "delayed",
        "a conflict was found in time",
        1.0,
        weight=2.0,
        metric="conflict_prevented",
        metrics=("verdict",),
        find=confirmed("CONFLICT"),
        yes_or_no=True,
        reads=READS,
        proxy=JUDGED + "the harm that was avoided",
    ),
    paid(
        "librarian.false_positive",
        "delayed",
        "something was found that is not so",
        -0.5,
        weight=0.5,
        metric="false_positive",
        metrics=("verdict",),
        find=false_positive,
        yes_or_no=True,
        reads=READS,
    ),
    paid(
        "librarian.missed_issue",
        "delayed",
        "something was there and not found",
        -1.0,
        weight=2.0,
        metric="missed_issue",
        metrics=("verdict",),
        find=missed_issue,
        yes_or_no=True,
        reads=READS,
        proxy=JUDGED + "what came up later",
    ),
    paid(
        "librarian.dependency",
        "delayed",
        "a dependency was found",
        0.5,
        weight=0.5,
        metric="dependency_found",
        metrics=("verdict",),
        find=confirmed("DEPENDENCY"),
        yes_or_no=True,
        reads=READS,
    ),
)
