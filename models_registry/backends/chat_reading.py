"""Reads messages and tools as clients, traces and files write them, in the form of `chat_rows`. PURE.

Taken are OpenAI's chat completions with contents as text or parts, calls with their arguments as text or objects, the
older `function_call`, and calls that stand flat, {id, name, arguments}, as traces have them. `strict` reading, for
files to learn from, refuses what other reading describes or leaves out: pictures, arguments that are no object, tools
without a name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from models_registry.backends.chat_rows import ROLES, Message, reply_as_text

OTHER_ROLES = {"developer": "system", "human": "user", "ai": "assistant", "model": "assistant", "function": "tool"}
"""What a role of `chat_rows` is called elsewhere."""
IMAGES = frozenset({"image_url", "input_image", "image"})
PICTURE = re.compile(r"^\[(?:image|image_url|input_image)\]$", re.MULTILINE)
THOUGHTS = frozenset({"reasoning", "thinking"})
"""Parts that are no part of what was said."""
SHARED_FIELDS = ("tools", "tool_choice", "response_format")
"""What the chats of one client have in common: it says nothing of any of them."""


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


def split_state(state: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """What a state with a chat has beside it, and what was said in the chat: nothing of its system prompt and tools,
    which the chats of one client share, and its last question, which `input` repeats, once. Raises ChatFault."""
    messages = read_messages(state["messages"])
    said = [reply_as_text(message) for message in messages if message["role"] != "system"]
    chat = " ".join(said or map(reply_as_text, messages))
    repeats = "".join(str(state.get("input") or "").split()) in "".join(chat.split())
    without = {"messages", *SHARED_FIELDS, *(("input",) if repeats else ())}
    return {name: state[name] for name in state if name not in without}, chat


def read_messages(messages: Sequence[Any], *, keep_media: bool = False) -> list[Message]:
    """The messages; an assistant's that holds neither words nor calls is left out. `keep_media`: contents with pictures
    or other media stay parts. Raises ChatFault."""
    read = [read_message(message, f"messages[{index}]") for index, message in enumerate(messages)]
    if keep_media:
        read = [
            one | ({"content": message["content"]} if holds_media([message]) else {})
            for one, message in zip(read, messages, strict=True)
        ]
    return [message for message in read if not is_silent(message)]


def is_silent(message: Message) -> bool:
    """Whether it is the assistant's, of the form of rows, and holds neither words nor calls."""
    return message["role"] == "assistant" and not message["content"] and "tool_calls" not in message


def read_message(message: Any, place: str, *, strict: bool = False) -> Message:
    """One message; `place` is its own in faults, such as messages[2]. Raises ChatFault."""
    if not isinstance(message, Mapping):
        raise ChatFault(place, "must be an object")
    role = OTHER_ROLES.get(str(message.get("role")), message.get("role"))
    if role not in ROLES:
        raise ChatFault(f"{place}.role", f"{role!r} must be one of {', '.join(ROLES)}")
    read: Message = {"role": role, "content": _read_content(message.get("content"), f"{place}.content", strict)}
    if role == "assistant" and not read["content"] and isinstance(message.get("refusal"), str):
        read["content"] = message["refusal"]
    if role == "assistant" and (calls := _find_calls(message, place, strict)):
        named = ((call, f"{place}.tool_calls[{index}]") for index, call in enumerate(calls))
        read["tool_calls"] = [_read_call(call, of_call, strict) for call, of_call in named]
    if role == "tool" and isinstance(message.get("tool_call_id"), str):
        read["tool_call_id"] = message["tool_call_id"]
    return read


def _read_content(content: Any, place: str, strict: bool) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if strict and isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, list):
        raise ChatFault(place, "must be a text, null, or a list of parts")
    return "".join(_read_part(part, f"{place}[{index}]", strict) for index, part in enumerate(content))


def _read_part(part: Any, place: str, strict: bool) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise ChatFault(place, "must be an object with a type")
    kind = str(part.get("type") or "text")
    if kind in THOUGHTS:
        return ""
    text = next((part[name] for name in ("text", "refusal") if isinstance(part.get(name), str)), None)
    if text is None and strict:
        raise ChatFault(place, f"is of type {kind!r}; only parts of text can be learnt from")
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


def _find_calls(message: Mapping[str, Any], place: str, strict: bool) -> list[Any]:
    calls, older = message.get("tool_calls"), message.get("function_call")
    if isinstance(calls, list) and calls:
        return calls
    if calls and strict:
        raise ChatFault(f"{place}.tool_calls", "must be a list")
    return [{"function": older}] if isinstance(older, Mapping) and older else []


def _read_call(call: Any, place: str, strict: bool) -> Message:
    function = call.get("function") or call.get("custom") or call if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ChatFault(f"{place}.function.name", "is missing")
    arguments = function.get("arguments", function.get("input"))  # a custom tool's input is text
    read = _read_arguments(arguments, f"{place}.function.arguments", strict)
    return make_call(function["name"], read, call.get("id"))


def _read_arguments(arguments: Any, place: str, strict: bool) -> Mapping[str, Any]:
    """Those that are no object stand under a name of their own, as a model may well write them so; `strict` refuses
    them."""
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            if strict:
                raise ChatFault(place, f"is not JSON: {error}") from error
            return {"arguments": arguments}
    if arguments is None:
        return {}
    if strict and not isinstance(arguments, Mapping):
        raise ChatFault(place, "must be an object")
    return arguments if isinstance(arguments, Mapping) else {"arguments": arguments}


def make_call(name: str, arguments: Mapping[str, Any], id: Any = None) -> Message:
    """A call of a tool as messages have it; without an id where none is known."""
    named = {"id": id} if isinstance(id, str) and id else {}
    return {**named, "type": "function", "function": {"name": name, "arguments": dict(arguments)}}


def read_tools(tools: Any, *, strict: bool = False) -> list[Message]:
    """The functions on offer, of OpenAI's form, flat as {name, description, parameters}, or as OpenInference writes
    them; what is none is left out. `strict`: the list may be JSON text, too. Raises ChatFault if `strict`."""
    if strict:
        tools = _read_list(tools)
    read = []
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        function = _find_function(tool)
        if not isinstance(function.get("name"), str):
            if strict:
                raise ChatFault(f"tools[{index}].function.name", "is missing")
            continue
        parameters = function.get("parameters") or function.get("input_schema")
        if strict and parameters and not isinstance(parameters, Mapping):
            raise ChatFault(f"tools[{index}].function.parameters", "must be an object")
        described = {"name": function["name"], "description": str(function.get("description") or "")}
        schema = (
            dict(parameters) if isinstance(parameters, Mapping) and parameters else {"type": "object", "properties": {}}
        )
        read.append({"type": "function", "function": {**described, "parameters": schema}})
    return read


def _read_list(tools: Any) -> list[Any]:
    if isinstance(tools, str):
        try:
            tools = msgspec.json.decode(tools) if tools.strip() else []
        except (ValueError, RecursionError) as error:
            raise ChatFault("tools", f"is not JSON: {error}") from error
    if not isinstance(tools or [], list):
        raise ChatFault("tools", "must be a list")
    return tools or []


def _find_function(tool: Any) -> Mapping[str, Any]:
    for name in ("tool", "json_schema", "function"):
        if isinstance(tool, Mapping) and name in tool:
            tool = tool[name]
        if name == "json_schema" and isinstance(tool, str):
            try:
                tool = msgspec.json.decode(tool)
            except (ValueError, RecursionError):
                return {}
    return tool if isinstance(tool, Mapping) else {}
