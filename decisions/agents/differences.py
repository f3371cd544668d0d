"""Compares two set-ups of an agent line by line, for its page.

A field becomes lines: a prompt its own, options one each, a schema its indented JSON, a number one. Long unchanged
stretches are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from decisions.agents.revising import find_changes
from decisions.agents.services import AgentSetup

CONTEXT = 3
"""Unchanged lines around each change."""
MOST_LINES = 1_000
"""Of each side: difflib's time grows with the product of both in the worst case."""
TITLES = {
    "prompt_template": "Prompt",
    "system_prompt": "System prompt",
    "action_space": "Action space",
    "options": "Options",
    "action_schema": "Action schema",
    "state_schema": "State schema",
    "max_prompt_tokens": "Prompt tokens, at most",
    "max_completion_tokens": "Completion tokens, at most",
    "temperature": "Temperature",
    "epsilon": "Epsilon",
    "exploration_budget": "Exploration budget",
}


@dataclass(frozen=True, slots=True)
class Line:
    """`kind`: "same", "added", "removed", or "gap" with how many unchanged lines were left out in `hidden`.

    `old` and `new` are line numbers from 1, None on the side that lacks the line.
    """

    kind: str
    text: str = ""
    old: int | None = None
    new: int | None = None
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs. `lines` is empty where it is too long to be compared."""

    field: str
    title: str
    added: int
    removed: int
    lines: tuple[Line, ...]


def compare_setups(old: AgentSetup, new: AgentSetup) -> list[Difference]:
    """One entry for each field that differs, in the order of the fields."""
    return [
        compare_texts(name, TITLES[name], _lines_of(getattr(old, name)), _lines_of(getattr(new, name)))
        for name in find_changes(old, new)
    ]


def compare_texts(field: str, title: str, before: Sequence[str], after: Sequence[str]) -> Difference:
    """The lines of one field before and now."""
    lines = compare_lines(before, after) if max(len(before), len(after)) <= MOST_LINES else ()
    added = sum(line.kind == "added" for line in lines) if lines else len(after)
    removed = sum(line.kind == "removed" for line in lines) if lines else len(before)
    return Difference(field, title, added, removed, lines)


def compare_lines(old: Sequence[str], new: Sequence[str]) -> tuple[Line, ...]:
    """The lines of both with CONTEXT unchanged ones around each change; what is removed stands before what is added."""
    found: list[Line] = []
    shown = 0  # lines of the old side
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        if (hidden := group[0][1] - shown) > 0:
            found.append(Line("gap", hidden=hidden))
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                found += [
                    Line("same", old[old_from + step], old_from + step + 1, new_from + step + 1)
                    for step in range(old_to - old_from)
                ]
                continue
            found += [Line("removed", old[number], old=number + 1) for number in range(old_from, old_to)]
            found += [Line("added", new[number], new=number + 1) for number in range(new_from, new_to)]
        shown = group[-1][2]
    if found and (hidden := len(old) - shown) > 0:
        found.append(Line("gap", hidden=hidden))
    return tuple(found)


def _lines_of(value: Any) -> list[str]:
    if value is None:
        return ["none"]
    if isinstance(value, str):
        return value.split("\n") if value else []
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, indent=2).split("\n")
    if isinstance(value, list | tuple):
        return [str(one) for one in value]
    return [str(value)]
