"""Reads chat messages as any dialect writes them. PURE.

All become `{"role", "content", "reasoning", "tool_calls": [{"id", "name", "arguments"}], "tool_call_id"}`, without
empty keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from workspaces.storage.storable import is_storable, read_json

MAX_DEPTH = 24
MAX_CONTAINERS = 50_000
MAX_PATH = 12
"""Parts of a name; no convention has more than seven."""
PART_KINDS = frozenset([
    "text", "input_text", "output_text", "refusal", "reasoning", "thinking",
    "image", "image_url", "input_image", "audio", "input_audio", "video", "file", "document",
    "tool_call", "tool_use", "tool-call", "function_call",
    "tool_call_response", "tool_result", "tool-result", "function_call_output",
])  # fmt: skip
"""What some instrumentations write into a message's content as JSON. Any other JSON there is what was said."""
CALLS = frozenset({"tool_call", "tool_use", "tool-call", "function", "function_call"})
TOOL_ANSWERS = frozenset({"tool_call_response", "tool_result", "tool-result", "function_call_output"})
CALL_IDS = ("tool_call_id", "call_id", "toolCallId", "tool_use_id", "id")
"""What the id of a call is named, in the call and in its tool's answer, the surest first."""
Message = dict[str, Any]


def parse_text(value: Any) -> Any:
    """Text that holds a JSON object or list of reasonable size as that, where it can be stored; everything else as it
    is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    if value.count("{") + value.count("[") > MAX_CONTAINERS:
        return value
    try:
        found = read_json(value)
    except ValueError:
        return value
    return found if is_storable(found, MAX_DEPTH) else value


def unflatten(attributes: Mapping[str, Any], prefix: str) -> Any:
    """`prefix.0.message.role` and its like as nested objects and lists; None where there is none."""
    root: dict[str, Any] = {}
    start = len(prefix) + 1
    for name, value in attributes.items():
        if not name.startswith(f"{prefix}."):
            continue
        *path, last = name[start:].split(".")
        if len(path) > MAX_PATH:
            continue
        node = root
        for part in path:
            inner = node.setdefault(part, {})
            if not isinstance(inner, dict):
                break
            node = inner
        else:
            node.setdefault(last, value)
    return _with_lists(root) if root else None


def _with_lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if all(key.isdecimal() and len(key) < 7 for key in node):
        return [_with_lists(node[key]) for key in sorted(node, key=int)]
    return {key: _with_lists(inner) for key, inner in node.items()}


def read_messages(given: Sequence[Any]) -> list[Message]:
    """Any dialect's messages in ours. What is no message is left out; what tools answered is the tools', whoever's
    message it stands in."""
    made = []
    for one in given:
        if isinstance(one, dict):
            inner = one.get("message")
            made += _read_message(inner if isinstance(inner, dict) else one)
    return made


@dataclass(slots=True)
class _Said:
    """A piece of what was said. `answers`: the id of the call that a tool answers by it; None where it is no tool's."""

    text: str
    answers: str | None = None


@dataclass(slots=True)
class _Parts:
    """What one message is made of, as it is read."""

    said: list[_Said] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[Message] = field(default_factory=list)


def _read_message(given: Mapping[str, Any]) -> list[Message]:
    """One message, and one for each of the tools that answer inside of it. OpenAI's Responses have calls and what
    tools answered beside the messages, without a role."""
    parts = _Parts()
    if "role" not in given and given.get("type") in CALLS | TOOL_ANSWERS:
        _read_parts([given], parts)
        return _compose("assistant", parts, "")
    role = str(given.get("role") or "user")
    for content in (given.get("content"), parse_text(given.get("parts")), given.get("contents")):
        if (found := _parts_of(content)) is not None:
            _read_parts(found, parts)
        elif content is not None:
            parts.said.append(_Said(_as_text(content)))
    for call in calls if isinstance(calls := parse_text(given.get("tool_calls")), list) else ():
        if isinstance(call, dict):
            inner = call.get("tool_call")
            parts.calls.append(_read_call(inner if isinstance(inner, dict) else call))
    if isinstance(given.get("reasoning_content"), str):
        parts.reasoning.append(given["reasoning_content"])
    return _compose(role, parts, _call_id(given) if role == "tool" else "")


def _compose(role: str, parts: _Parts, answers: str) -> list[Message]:
    """`answers`: the call that the whole message answers, where it says so."""
    by_call = {piece.answers for piece in parts.said if piece.answers is not None}
    if role == "tool" and len(by_call) <= 1:
        answers = next(iter(by_call), "") or answers
        return [_tool_message("\n".join(piece.text for piece in parts.said), answers)] if parts.said or answers else []
    tools = [_tool_message(piece.text, piece.answers) for piece in parts.said if piece.answers is not None]
    message: Message = {"role": role}
    if texts := [piece.text for piece in parts.said if piece.answers is None]:
        message["content"] = "\n".join(texts)
    if parts.reasoning:
        message["reasoning"] = "\n".join(parts.reasoning)
    if parts.calls:
        message["tool_calls"] = parts.calls
    own = [message] if len(message) > 1 else []
    return [*own, *tools] if role == "assistant" else [*tools, *own]


def _tool_message(text: str, answers: str) -> Message:
    return {"role": "tool", "content": text} | ({"tool_call_id": answers} if answers else {})


def _call_id(given: Mapping[str, Any]) -> str:
    return next((given[key] for key in CALL_IDS if isinstance(given.get(key), str)), "")


def _parts_of(content: Any) -> list[Any] | None:
    """A content's parts; None where it is text, be it JSON of the speaker's own."""
    given = parse_text(content)
    if not isinstance(given, list) or isinstance(content, list):
        return content if isinstance(content, list) else None
    known = all(isinstance(one, dict) and one.get("type") in PART_KINDS for one in given)
    return given if known and given else None


def _read_parts(given: Sequence[Any], parts: _Parts) -> None:
    for one in given:
        if not isinstance(one, dict):
            parts.said.append(_Said(_as_text(one)))
            continue
        inner = one.get("message_content")
        part: dict[str, Any] = inner if isinstance(inner, dict) else one
        kind = str(part.get("type") or "text")
        text = next((part[key] for key in ("content", "text", "thinking") if isinstance(part.get(key), str)), None)
        if kind in CALLS:
            parts.calls.append(_read_call(part))
        elif kind in TOOL_ANSWERS:
            parts.said.append(_Said(_tool_answer(part), _call_id(part)))
        elif kind in {"reasoning", "thinking"}:
            parts.reasoning += [text] if text else []
        else:
            parts.said.append(_Said(text if text is not None else f"[{kind}]" if "type" in part else _as_text(part)))


def _tool_answer(part: Mapping[str, Any]) -> str:
    answer = next((part[key] for key in ("response", "result", "output", "content") if key in part), "")
    if isinstance(answer, dict) and set(answer) == {"type", "value"}:  # the Vercel AI SDK's
        answer = answer["value"]
    return _as_text(answer)


def _read_call(given: Mapping[str, Any]) -> Message:
    inner = given.get("function")
    function = inner if isinstance(inner, dict) else given
    written = next((function[key] for key in ("arguments", "input", "args") if key in function), None)
    arguments = parse_text(written)
    name = next((function[key] for key in ("name", "toolName") if key in function), "")
    call: Message = {"name": str(name or ""), "arguments": {} if arguments in (None, "") else arguments}
    if named := _call_id(given):
        call["id"] = named
    return call


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def find_question(value: Any) -> str:
    """What a person asked, from what went in: the last user message, else the field that is usually the question."""
    given = parse_text(value)
    if isinstance(given, dict):
        if (argument := only_argument(given)) is not given:
            return find_question(argument)
        for key in ("messages", "input", "query", "question", "prompt", "text"):
            if given.get(key):
                return find_question(given[key])
    if isinstance(given, list):
        said = [m for m in read_messages(given) if m["role"] in {"user", "human"} and m.get("content")]
        if said:
            return str(said[-1]["content"])
    return _as_text(value)


def find_answer(value: Any) -> str:
    """What was answered in the end, from what came out: the last message's text."""
    given = parse_text(value)
    if isinstance(given, dict):
        for key in ("messages", "content", "output", "answer", "final_response", "response", "text"):
            if given.get(key):
                return find_answer(given[key])
        if isinstance(choices := given.get("choices"), list):
            return find_answer(choices)
    if isinstance(given, list):
        said = [m for m in read_messages(given) if m.get("content") and m["role"] != "tool"]
        if said:
            return str(said[-1]["content"])
    return _as_text(value)


def only_argument(value: Any) -> Any:
    """The arguments of a function as its decorator wrote them, `{"args": […], "kwargs": {…}}`: those with names as an
    object, one without as itself; any other value as it is."""
    if not isinstance(value, dict) or set(value) != {"args", "kwargs"}:
        return value
    args, named = value["args"], value["kwargs"]
    if not args and isinstance(named, dict):
        return named
    return args[0] if isinstance(args, list) and len(args) == 1 and not named else value
