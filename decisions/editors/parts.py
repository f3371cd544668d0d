"""An action taken apart for reading: what each part is called, what it says, and what a correction changed in it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from decisions.agents.canonical import canonical
from decisions.agents.prompts import as_text

Mark = Literal["", "added", "removed", "changed"]
MISSING: Final = object()
"""No value at all, which null is not."""
MOST_PIECES = 5_000
"""Longer texts are compared by lines, and what has more lines than that as a whole."""
MAX_DEPTH = 6
PROSE = 60
"""Characters from which a changed text is compared by its words."""
NOTHING = {None: "none", True: "yes", False: "no", "": "empty"}


@dataclass(frozen=True, slots=True)
class Run:
    """Words that stand in both texts, or in one of them only."""

    text: str
    mark: Mark = ""


@dataclass(frozen=True, slots=True)
class Part:
    """`was`: what the agent had, where `mark` says that it changed; or the `runs` of a changed text. `says`: what else
    is to be known of it."""

    name: str
    text: str = ""
    mark: Mark = ""
    was: str = ""
    says: str = ""
    runs: tuple[Run, ...] = ()
    parts: tuple[Part, ...] = ()


def compare_words(was: str, now: str) -> tuple[Run, ...]:
    """Both texts together can be read from the runs: without the added ones the first, without the removed ones the
    second."""
    before, after = _take_pieces(was, now)
    runs: list[Run] = []
    for kind, low, high, start, end in difflib.SequenceMatcher(str.isspace, before, after).get_opcodes():
        if kind == "equal":
            runs.append(Run("".join(before[low:high])))
            continue
        if low < high:
            runs.append(Run("".join(before[low:high]), "removed"))
        if start < end:
            runs.append(Run("".join(after[start:end]), "added"))
    return tuple(runs)


def _take_pieces(was: str, now: str) -> tuple[list[str], list[str]]:
    """Words and what stands between them, or lines where there are too many."""
    for pattern in (r"\w+|\s+|[^\w\s]+", r"[^\n]*\n|[^\n]+"):
        before, after = re.findall(pattern, was), re.findall(pattern, now)
        if max(len(before), len(after)) <= MOST_PIECES:
            return before, after
    return [was], [now]


def read_value(value: Any) -> str:
    """A value without parts, as people read it."""
    if isinstance(value, list) and not any(isinstance(one, dict | list) for one in value):
        return ", ".join(as_text(one) for one in value) or "none"
    if value == {}:
        return "none"
    if value is None or isinstance(value, bool) or value == "":
        return NOTHING[value]
    return as_text(value)


def take_apart(name: str, value: Any, was: Any = None, *, compared: bool = False, depth: int = 0) -> Part:
    """Any JSON value. `compared`: with what `was` there before, which may be MISSING, as `value` may."""
    if value is MISSING:
        return replace(take_apart(name, was, depth=depth), mark="removed")
    if compared and was is MISSING:
        return replace(take_apart(name, value, depth=depth), mark="added")
    if depth < MAX_DEPTH and isinstance(value, dict) and (value or (compared and isinstance(was, dict) and was)):
        old = was if isinstance(was, dict) else {}
        return Part(name, parts=take_fields_apart(value, old, compared=compared, depth=depth + 1))
    if depth < MAX_DEPTH and isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        old_list = was if isinstance(was, list) else []
        return Part(name, parts=take_list_apart(value, old_list, compared=compared, depth=depth + 1))
    text = read_value(value)
    if not compared or canonical(value) == canonical(was):
        return Part(name, text)
    if isinstance(value, str) and isinstance(was, str) and max(len(value), len(was)) > PROSE:
        return Part(name, text, "changed", runs=compare_words(was, value))
    return Part(name, text, "changed", was=read_value(was))


def take_fields_apart(
    value: Mapping[str, Any], was: Mapping[str, Any], *, compared: bool, depth: int = 0
) -> tuple[Part, ...]:
    names = [*value, *(name for name in was if compared and name not in value)]
    return tuple(
        take_apart(name, value.get(name, MISSING), was.get(name, MISSING), compared=compared, depth=depth)
        for name in names
    )


def take_list_apart(value: Sequence[Any], was: Sequence[Any], *, compared: bool, depth: int = 0) -> tuple[Part, ...]:
    pairs = pair_up(was, value) if compared else ((MISSING, one) for one in value)
    return tuple(
        take_apart(str(number), now, old, compared=compared, depth=depth)
        for number, (old, now) in enumerate(pairs, start=1)
    )


def name_both(old: Any, now: Any, name: Callable[[Any], str]) -> str:
    """The name of what was paired, with the one that it had."""
    if old is MISSING or now is MISSING or name(old) == name(now):
        return name(old if now is MISSING else now)
    return f"{name(old)} → {name(now)}"


def pair_up(was: Sequence[Any], now: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Elements of two lists side by side: equal ones together, then those at the same place between them; MISSING where
    one list has none."""
    before, after = [canonical(one) for one in was], [canonical(one) for one in now]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for _, low, high, start, end in matcher.get_opcodes():
        for place in range(max(high - low, end - start)):
            yield (
                was[low + place] if low + place < high else MISSING,
                now[start + place] if start + place < end else MISSING,
            )
