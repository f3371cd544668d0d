"""What an agent does in a chat: it says something, or it calls tools. PURE.

Agents of the kinds `text` and `tool_calls` do either: the action is a text, or a list of `{"name", "arguments"}`, each
with the `id` that the server gave the call, where it gave one. An id names one call of one answer: two actions that
differ in their ids alone are the same action.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from decisions.agents.canonical import canonical
from workspaces.errors import FieldFault

CHATTING = frozenset({"text", "tool_calls"})
MAX_SHOWN = 5


def find_chat_faults(action: Any, options: Sequence[str] | None) -> list[FieldFault]:
    """Every fault of a chat's action. `options`, where there are any, are the names of the tools that were offered."""
    if isinstance(action, str):
        return []
    if not isinstance(action, list):
        return [FieldFault("action", "is neither text nor tool calls", "text, or a list of {name, arguments}")]
    return [fault for index, call in enumerate(action) for fault in _call_faults(f"action[{index}]", call, options)]


def _call_faults(place: str, call: Any, options: Sequence[str] | None) -> list[FieldFault]:
    if not isinstance(call, dict):
        return [FieldFault(place, "is not a tool call", "{name: text, arguments: object}")]
    faults = []
    name = call.get("name")
    if not isinstance(name, str):
        reason = "is not text" if "name" in call else "is missing"
        faults.append(FieldFault(f"{place}.name", reason, "the name of a tool"))
    elif options is not None and name not in options:
        faults.append(FieldFault(f"{place}.name", f"{name!r} is not one of the options", show_options(options)))
    if not isinstance(call.get("arguments"), dict):
        reason = "is not an object" if "arguments" in call else "is missing"
        faults.append(FieldFault(f"{place}.arguments", reason, 'an object such as {"id": 3}'))
    if not isinstance(call.get("id", ""), str):
        faults.append(FieldFault(f"{place}.id", "is not text", "the id of the call, or none"))
    return faults


def show_options(options: Sequence[str]) -> str:
    """The first few, as what is expected."""
    more = f" and {len(options) - MAX_SHOWN} more" if len(options) > MAX_SHOWN else ""
    return "one of " + ", ".join(options[:MAX_SHOWN]) + more


def without_ids(action: Any) -> Any:
    """The action without the ids of its tool calls; any other value as it is."""
    if not (isinstance(action, list) and action and all(map(_is_call, action))):
        return action
    return [{name: value for name, value in call.items() if name != "id"} for call in action]


def canonical_action(action: Any) -> str:
    """One text for equal actions, whatever ids their tool calls have."""
    return canonical(without_ids(action))


def _is_call(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str) and isinstance(value.get("arguments"), dict)
