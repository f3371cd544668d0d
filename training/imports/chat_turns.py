"""Chats as files have them, in the form of rows (models_registry.backends.chat_rows), and cut into the assistant's
turns. PURE.

What clients, trainers and their exports write differently is read as one: contents as parts or null, the roles
`developer` and `function`, `function_call`, arguments as JSON text, tools without their wrapping object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from models_registry.backends.chat_rows import ROLES, Message

ROLE_NAMES = {"developer": "system", "function": "tool"}
MOST_MESSAGES = 2_000


class Turn(NamedTuple):
    """One reply of the assistant's, and all messages before it."""

    before: tuple[Message, ...]
    reply: Message


def split_turns(messages: Sequence[Any], tools: Sequence[Any] = ()) -> list[Turn]:
    """Every turn of the assistant's, in order, in the form of rows. Turns of `weight` 0, as in OpenAI's files for
    fine-tuning, are context and no turns. With `tools`, a call of a function that is not among them is refused. Raises
    ValueError, naming the place, for what is no chat, and for a chat that ends with the user: it asks for a reply that
    the file does not have."""
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise ValueError("messages: is not a list")
    if len(messages) > MOST_MESSAGES:
        raise ValueError(f"messages: {len(messages):,} are more than {MOST_MESSAGES:,}")
    read = read_messages(messages)
    offered = {tool["function"]["name"] for tool in read_tools(tools)}
    if not any(message["role"] == "assistant" for _, message in read):
        raise ValueError("messages: none is the assistant's, so there is nothing to learn")
    if read[-1][1]["role"] in ("user", "system"):
        raise ValueError(f"messages: end with the {read[-1][1]['role']}'s; the assistant's reply to it is missing")
    turns = []
    for at, (place, message) in enumerate(read):
        if message["role"] != "assistant":
            continue
        for call in message.get("tool_calls") or ():
            if offered and (name := call["function"]["name"]) not in offered:
                raise ValueError(f"messages[{place}].tool_calls: {name!r} is not among the tools")
        if not any(before["role"] in ("user", "tool") for _, before in read[:at]):
            continue  # a greeting: nobody has asked anything
        if messages[place].get("weight") != 0:
            turns.append(Turn(tuple(before for _, before in read[:at]), message))
    if not turns:
        raise ValueError("messages: no turn of the assistant's answers anything that is learnt from")
    return turns


def read_messages(messages: Sequence[Any]) -> list[tuple[int, Message]]:
    """The messages in the form of rows, each with its place in the file's list. An assistant's message that says
    nothing is left out; successive ones of the assistant are one turn, since no template has two. Raises ValueError."""
    read: list[tuple[int, Message]] = []
    unanswered: list[str] = []
    for index, given in enumerate(messages):
        message = _read_message(given, f"messages[{index}]", unanswered)
        if message is None:
            continue
        if message["role"] == "assistant" and read and read[-1][1]["role"] == "assistant":
            read[-1] = (index, _join(read[-1][1], message))
        else:
            read.append((index, message))
    return read


def read_tools(tools: Sequence[Any] | str | None) -> list[Message]:
    """Tools on offer in the form of rows; as JSON text too, and functions without their wrapping. Raises ValueError."""
    if isinstance(tools, str):
        tools = _decode(tools, "tools") if tools.strip() else []
    if not isinstance(tools or [], list | tuple):
        raise ValueError("tools: is not a list")
    read = []
    for index, tool in enumerate(tools or ()):
        function = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise ValueError(f"tools[{index}].function.name: is missing")
        parameters = function.get("parameters") or function.get("input_schema") or {"type": "object", "properties": {}}
        described = {"name": function["name"], "description": function.get("description") or ""}
        read.append({"type": "function", "function": {**described, "parameters": parameters}})
    return read


def content_text(content: Any, place: str) -> str:
    """A message's content as text: null as none, parts joined. Raises ValueError for a part that is no text, such as
    an image, which no row holds."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, list | tuple):
        raise ValueError(f"{place}: must be a text, null, or a list of parts")
    return "".join(_part_text(part, f"{place}[{index}]") for index, part in enumerate(content))


def _part_text(part: Any, place: str) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and isinstance(text := part.get("text", part.get("refusal")), str):
        return text
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    raise ValueError(f"{place}: is of type {kind!r}; only parts of text can be learnt from")


def _read_message(given: Any, place: str, unanswered: list[str]) -> Message | None:
    """`unanswered` holds the ids of the calls without a result, which results without an id answer in order."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{place}: is not an object")
    role = ROLE_NAMES.get(str(given.get("role")), given.get("role"))
    if role not in ROLES:
        raise ValueError(f"{place}.role: {given.get('role')!r} must be one of {', '.join(ROLES)}")
    message: Message = {"role": role, "content": content_text(given.get("content"), f"{place}.content")}
    if role == "assistant":
        calls = list(_read_calls(given, place))
        if not calls and not message["content"]:
            return None
        if calls:
            message["tool_calls"] = calls
        unanswered[:] = [call["id"] for call in calls]
    elif role == "tool":
        own = given.get("tool_call_id")
        if isinstance(own, str) and own:
            unanswered[:] = [call for call in unanswered if call != own]
            message["tool_call_id"] = own
        elif unanswered:
            message["tool_call_id"] = unanswered.pop(0)
        else:
            raise ValueError(f"{place}.tool_call_id: is missing, and no call before it waits for a result")
        if isinstance(given.get("name"), str):
            message["name"] = given["name"]
    return message


def _read_calls(given: Mapping[str, Any], place: str) -> Iterator[dict[str, Any]]:
    calls = given.get("tool_calls") or []
    if not calls and given.get("function_call"):
        calls = [{"function": given["function_call"]}]
    if not isinstance(calls, list | tuple):
        raise ValueError(f"{place}.tool_calls: is not a list")
    for index, call in enumerate(calls):
        where = f"{place}.tool_calls[{index}].function"
        function = call.get("function", call) if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise ValueError(f"{where}.name: is missing")
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            arguments = _decode(arguments, f"{where}.arguments") if arguments.strip() else {}
        if not isinstance(arguments or {}, Mapping):
            raise ValueError(f"{where}.arguments: must be an object")
        own = call.get("id")
        yield {
            "id": own if isinstance(own, str) and own else f"call_{place[9:-1]}_{index}",
            "type": "function",
            "function": {"name": function["name"], "arguments": dict(arguments or {})},
        }


def _join(first: Message, second: Message) -> Message:
    """Two messages of the assistant's without anybody between them."""
    joined: Message = {
        "role": "assistant",
        "content": "\n\n".join(part for part in (first["content"], second["content"]) if part),
    }
    calls = [*first.get("tool_calls", ()), *second.get("tool_calls", ())]
    return joined | ({"tool_calls": calls} if calls else {})


def _decode(text: str, place: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}: is not JSON: {error}") from error
