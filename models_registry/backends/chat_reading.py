"""Reads messages and tools as clients, traces and files write them, in the form of `chat_rows`. PURE.

Taken are OpenAI's chat completions with contents as text or parts, calls with their arguments as text or objects, the
older `function_call`, and calls that stand flat, {id, name, arguments}, as traces have them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from models_registry.backends.chat_rows import ROLES, Message

OTHER_ROLES = {"developer": "system", "human": "user", "ai": "assistant", "model": "assistant", "function": "tool"}
"""What a role of `chat_rows` is called elsewhere."""
IMAGES = frozenset({"image_url", "input_image", "image"})
PICTURE = re.compile(r"^\[(?:image|image_url|input_image)\]$", re.MULTILINE)
THOUGHTS = frozenset({"reasoning", "thinking"})
"""Parts that are no part of what was said."""


class ChatFault(ValueError):
    """What of a chat cannot be read; `place` names it, such as messages[2].role."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason


def has_messages(state: Mapping[str, Any]) -> bool:
    """Whether what an agent knew is a chat: `messages`, each with its role."""
    messages = state.get("messages")
    return (
        isinstance(messages, list)
        and bool(messages)
        and all(isinstance(message, Mapping) and isinstance(message.get("role"), str) for message in messages)
    )


def read_messages(messages: Sequence[Any], *, keep_media: bool = False) -> list[Message]:
    """The messages; an assistant's that holds neither words nor calls is left out. `keep_media`: contents with pictures
    or other media stay parts. Raises ChatFault."""
    read = [_read_message(f"messages[{index}]", message) for index, message in enumerate(messages)]
    if keep_media:
        read = [
            one | ({"content": message["content"]} if holds_media([message]) else {})
            for one, message in zip(read, messages, strict=True)
        ]
    return [message for message in read if message["role"] != "assistant" or len(message) > 2 or message["content"]]


def _read_message(place: str, message: Any) -> Message:
    if not isinstance(message, Mapping):
        raise ChatFault(place, "must be an object")
    role = OTHER_ROLES.get(str(message.get("role")), message.get("role"))
    if role not in ROLES:
        raise ChatFault(f"{place}.role", f"{role!r} must be one of {', '.join(ROLES)}")
    read: Message = {"role": role, "content": _read_content(f"{place}.content", message.get("content"))}
    if role == "assistant" and not read["content"] and isinstance(message.get("refusal"), str):
        read["content"] = message["refusal"]
    if role == "assistant" and (calls := _find_calls(message)):
        read["tool_calls"] = [_read_call(f"{place}.tool_calls[{index}]", call) for index, call in enumerate(calls)]
    if role == "tool" and isinstance(message.get("tool_call_id"), str):
        read["tool_call_id"] = message["tool_call_id"]
    return read


def _read_content(place: str, content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise ChatFault(place, "must be a text or a list of parts")
    return "".join(_read_part(f"{place}[{index}]", part) for index, part in enumerate(content))


def _read_part(place: str, part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise ChatFault(place, "must be an object with a type")
    kind = str(part.get("type") or "text")
    if kind in THOUGHTS:
        return ""
    text = next((part[name] for name in ("text", "refusal") if isinstance(part.get(name), str)), None)
    return text if text is not None else "[image]" if kind in IMAGES else f"[{kind}]"


def names_pictures(messages: Sequence[Any]) -> bool:
    """Whether a content has a picture, or the word that traces keep of one, on a line of its own."""
    contents = [message.get("content") for message in messages if isinstance(message, Mapping)]
    return holds_media(messages) or any(isinstance(text, str) and PICTURE.search(text) for text in contents)


def holds_media(messages: Sequence[Any]) -> bool:
    """Whether a content has pictures, sound or files, of which `read_messages` keeps a word alone."""
    contents = [message.get("content") for message in messages if isinstance(message, Mapping)]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return any(isinstance(part, Mapping) and _is_medium(part) for part in parts)


def _is_medium(part: Mapping[str, Any]) -> bool:
    said = any(isinstance(part.get(name), str) for name in ("text", "refusal"))
    return not said and part.get("type") not in THOUGHTS


def _find_calls(message: Mapping[str, Any]) -> list[Any]:
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        return calls
    return [{"function": message["function_call"]}] if isinstance(message.get("function_call"), Mapping) else []


def _read_call(place: str, call: Any) -> Message:
    function = call.get("function") or call.get("custom") or call if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ChatFault(f"{place}.function.name", "is missing")
    arguments = function.get("arguments", function.get("input"))  # a custom tool's input is text
    return make_call(function["name"], _read_arguments(arguments), call.get("id"))


def _read_arguments(arguments: Any) -> Mapping[str, Any]:
    """Those that are no object stand under a name of their own, as a model may well write them so."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return {"arguments": arguments}
    if arguments is None:
        return {}
    return arguments if isinstance(arguments, Mapping) else {"arguments": arguments}


def make_call(name: str, arguments: Mapping[str, Any], id: Any = None) -> Message:
    """A call of a tool as messages have it; without an id where none is known."""
    named = {"id": id} if isinstance(id, str) and id else {}
    return {**named, "type": "function", "function": {"name": name, "arguments": dict(arguments)}}


def read_tools(tools: Any) -> list[Message]:
    """The functions on offer, of OpenAI's form, flat as {name, description, parameters}, or as OpenInference writes
    them; what is none is left out."""
    read = []
    for tool in tools if isinstance(tools, list) else ():
        function = _find_function(tool)
        if not isinstance(function.get("name"), str):
            continue
        parameters = function.get("parameters", function.get("input_schema"))
        described = {"name": function["name"], "description": str(function.get("description") or "")}
        known = isinstance(parameters, Mapping) and parameters
        schema = dict(parameters) if known else {"type": "object", "properties": {}}
        read.append({"type": "function", "function": {**described, "parameters": schema}})
    return read


def _find_function(tool: Any) -> Mapping[str, Any]:
    for name in ("tool", "json_schema", "function"):
        if isinstance(tool, Mapping) and name in tool:
            tool = tool[name]
        if name == "json_schema" and isinstance(tool, str):
            try:
                tool = json.loads(tool)
            except (ValueError, RecursionError):
                return {}
    return tool if isinstance(tool, Mapping) else {}
