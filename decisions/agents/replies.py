"""What an agent that chats answered, as the assistant's message (`models_registry.backends.chat_rows`). PURE.

Its action is a text, or a list of calls, {name, arguments, id?}, beside which words may have been said. A list without
calls, with words, is an answer in words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from decisions.agents.chat_actions import without_ids
from models_registry.backends.chat_reading import make_call
from models_registry.backends.chat_rows import Message

RESPOND = "respond"
"""The call as which importers of earlier releases wrote an answer in words."""
UNREAD = "unread"
"""The field of a call whose arguments were no JSON object: their text."""


def make_reply(action: Any, words: str | None = None, tools: Sequence[Message] = ()) -> Message | None:
    """The message; None of an action that is neither a text nor a list of calls. `words`: what was said beside the
    calls, a decision's completion. `tools`: those on offer, as messages have them."""
    if isinstance(action, str):
        return {"role": "assistant", "content": action}
    if not is_calls(action):
        return None
    if (said := _find_response(action)) is not None and RESPOND not in {tool["function"]["name"] for tool in tools}:
        return {"role": "assistant", "content": said}
    calls = [make_call(call["name"], call["arguments"], call.get("id")) for call in action]
    content = "" if words is None or _are_the_calls(words, action) else words
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}


def is_calls(action: Any) -> bool:
    """Whether it is a list of calls, be it an empty one."""
    return isinstance(action, list) and all(
        isinstance(call, Mapping) and isinstance(call.get("name"), str) and isinstance(call.get("arguments"), Mapping)
        for call in action
    )


def _find_response(action: Sequence[Any]) -> str | None:
    """The words of the only call, RESPOND."""
    if len(action) != 1 or action[0]["name"] != RESPOND or action[0]["arguments"].keys() != {"content"}:
        return None
    content = action[0]["arguments"]["content"]
    return content if isinstance(content, str) else None


def _are_the_calls(words: str, action: Sequence[Any]) -> bool:
    """A model of ours that is asked without a chat writes its calls as a JSON list."""
    if not words.lstrip().startswith("["):
        return False
    try:
        return bool(json.loads(words) == without_ids(action))
    except (ValueError, RecursionError):
        return False


def has_unread(action: Any) -> bool:
    """Whether the arguments of a call are not known, as they were no JSON object."""
    return isinstance(action, list) and any(isinstance(call, Mapping) and UNREAD in call for call in action)
