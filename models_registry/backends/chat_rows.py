"""A chat in a row of training data: messages, tools and the reply, in one form, and the same as plain text. PURE.

The form is OpenAI's, with contents as text ("" where there is none), arguments as objects, and the role `developer`
written `system`:

    messages  [{"role": "system" | "user" | "assistant" | "tool", "content": str,
                "tool_calls": [{"id": str, "type": "function", "function": {"name": str, "arguments": {…}}}],
                "tool_call_id": str}, …]                                          up to where the reply begins
    tools     [{"type": "function", "function": {"name": str, "description": str, "parameters": {…}}}, …]
    reply     {"role": "assistant", "content": str, "tool_calls": […]}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

Message = dict[str, Any]
ROLES = ("system", "user", "assistant", "tool")


def find_chat_faults(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What is wrong with the messages and tools of a row, each with its place."""
    if not messages:
        yield "messages: at least one is needed"
    for index, message in enumerate(messages):
        yield from _message_faults(f"messages[{index}]", message)
    if messages and messages[-1].get("role") == "assistant":
        yield "messages: end with the assistant's; its reply stands in completion"
    for index, tool in enumerate(tools):
        function = tool.get("function")
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            yield f"tools[{index}].function.name: is missing"


def find_reply_faults(field: str, reply: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a row's reply; `field` is its name there."""
    yield from _message_faults(field, reply)
    if reply.get("role") != "assistant":
        yield f"{field}.role: must be assistant"
    if not reply.get("content") and not reply.get("tool_calls"):
        yield f"{field}: holds neither words nor tool calls"


def _message_faults(place: str, message: Mapping[str, Any]) -> Iterator[str]:
    role = message.get("role")
    if role not in ROLES:
        yield f"{place}.role: {role!r} must be one of {', '.join(ROLES)}"
    if not isinstance(message.get("content"), str):
        yield f"{place}.content: must be a text"
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            yield f"{place}.tool_calls[{index}].function.name: is missing"
        elif not isinstance(function.get("arguments"), Mapping):
            yield f"{place}.tool_calls[{index}].function.arguments: must be an object"


def chat_as_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """Each message under the name of its role, with an empty line between two."""
    return "\n\n".join(f"{message['role'].capitalize()}: {reply_as_text(message)}" for message in messages)


def reply_as_text(reply: Mapping[str, Any]) -> str:
    """Its words, and below them its calls as a JSON list of {"arguments", "name"}, as the actions of agents that call
    tools have them."""
    calls = [call["function"] for call in reply.get("tool_calls") or ()]
    listed = [{"arguments": call["arguments"], "name": call["name"]} for call in calls]
    written = msgspec.json.encode(listed, order="sorted").decode() if listed else ""
    return "\n".join(part for part in (reply.get("content") or "", written) if part)
