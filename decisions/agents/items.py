"""What is asked of each item of a list by itself: is it right for the first place? PURE.

An item's prompt is that of the decision with every other item taken out: of `{{ options }}`, and of lists in the state
whose members are the options, by themselves or by their `id`. So an item is scored by itself, whatever else is shown
and in whatever order, and a list of any length fits. The gateway and datasets of rankings ask so, and datasets of
findings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from decisions.agents.prompts import Version, make_prompt
from models_registry.backends.prompts import Prompt

# As training.engine.rows.types has them: the engine knows none of this.
YES, NO = "yes", "no"


def ask_items(
    version: Version, state: Mapping[str, Any], asked: Sequence[str], *, offered: Sequence[str] = ()
) -> dict[str, Prompt] | None:
    """The prompt of each item; None where the prompts do not tell them apart. `offered`: the items among which those
    that are asked for stand, by default these alone. Raises PromptError."""
    shown = {*asked, *offered}
    prompts = {item: make_prompt(version, keep_item(state, item, shown), [item]) for item in asked}
    return prompts if len(set(prompts.values())) == len(prompts) else None


def keep_item(state: Any, item: str, shown: Collection[str]) -> Any:
    """The state, in which lists of the items that were shown hold only this one."""
    if isinstance(state, dict):
        return {name: keep_item(inner, item, shown) for name, inner in state.items()}
    if not isinstance(state, list):
        return state
    names = [_name(member) for member in state]
    if names and all(name in shown for name in names):
        return [member for member, name in zip(state, names, strict=True) if name == item]
    return [keep_item(member, item, shown) for member in state]


def find_members(state: Any, shown: Collection[str]) -> dict[str, Any]:
    """The members of the state's lists that `keep_item` tells apart, by the items' names; the first of each."""
    if isinstance(state, dict):
        inner = list(state.values())
    elif isinstance(state, list):
        names = [_name(member) for member in state]
        if names and all(name in shown for name in names):
            return {name: member for name, member in reversed(list(zip(names, state, strict=True))) if name is not None}
        inner = state
    else:
        return {}
    found: dict[str, Any] = {}
    for value in inner:
        found = find_members(value, shown) | found
    return found


def _name(member: Any) -> str | None:
    found = member.get("id") if isinstance(member, dict) else member
    return found if isinstance(found, str) else None
