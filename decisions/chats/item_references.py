"""Items of earlier answers that a request of the Responses API names by their ids, put in from the ledger: Vercel's AI
SDK sends the words of its earlier turns in no other way. The gateway calls it before it reads the request."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from decisions.agents.replies import UNREAD, is_calls
from decisions.models import Decision
from models_registry.calls.key_limits import may_ask
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput, TooLarge
from workspaces.http.parsing import MAX_BODY

ITEM_ID = re.compile(r"(?P<kind>msg|fc)_(?P<decision>[0-9a-f]{32})(?:_(?P<index>[0-9]{1,3}))?")
"""The ids that `decisions.chats.responses` gives to words and calls."""
MOST_ITEMS = 1024
"""Items of one input, as many as `decisions.chats.responses` takes."""
MOST_SHOWN = 20
"""References that are told where many are unknown."""


def has_references(given: Mapping[str, Any]) -> bool:
    return any(True for _ in _references(given))


def replace_references(*, by: Actor, given: Mapping[str, Any]) -> dict[str, Any]:
    """The request with the items that it refers to. Raises InvalidInput for those that no answer to this key is, and
    TooLarge before a few bytes that are said often become more than a chat may have."""
    if len(given["input"]) > MOST_ITEMS:
        fault = FieldFault("input", f"has {len(given['input'])} items", f"up to {MOST_ITEMS}")
        raise InvalidInput("The request is invalid.", faults=[fault])
    found = {index: ITEM_ID.fullmatch(str(item.get("id"))) for index, item in _references(given)}
    ids = {uuid.UUID(match["decision"]) for match in found.values() if match is not None}
    decisions = {
        decision.id.hex: decision
        for decision in Decision.objects.for_workspace(by.workspace).filter(id__in=ids).select_related("agent")
        if may_ask(by=by, agent=decision.agent.slug)
    }
    items = list(given["input"])
    faults: list[FieldFault] = []
    size = 0
    for index, match in found.items():
        decision = decisions.get(match["decision"]) if match is not None else None
        item = _item(decision, match) if decision is not None and match is not None else None
        if item is None:
            named = str(items[index].get("id"))[:80]
            faults.append(
                FieldFault(f"input[{index}].id", f"{named!r} is no item of an answer here", "the item itself")
            )
        else:
            items[index] = item
            size += len(item.get("content") or item.get("arguments") or "")
            if size > MAX_BODY:
                raise TooLarge(f"The items that the input refers to have more than {MAX_BODY} bytes.")
    if faults:
        raise InvalidInput("The input refers to something that is not known here.", faults=faults[:MOST_SHOWN])
    return {**given, "input": items}


def _references(given: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """With their places in the input."""
    items = given.get("input")
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, Mapping) and item.get("type") == "item_reference":
            yield index, item


def _item(decision: Decision, match: re.Match[str]) -> dict[str, Any] | None:
    """None where the answer holds no such words or call, or was erased."""
    words = "" if decision.action == "" else decision.completion
    if match["kind"] == "msg":
        return {"type": "message", "role": "assistant", "content": words} if words is not None else None
    calls = decision.action if is_calls(decision.action) else []
    index = int(match["index"] or 0)
    if index >= len(calls):
        return None
    call = calls[index]
    arguments = call.get(UNREAD) or msgspec.json.encode(call["arguments"]).decode()
    named = {"call_id": call.get("id") or match[0], "name": call["name"]}
    return {"type": "function_call", **named, "arguments": arguments}
