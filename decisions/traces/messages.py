"""Reads chat messages from a span, in any of the five ways of writing them. PURE.

All become `{"role", "content", "reasoning", "tool_calls": [{"id", "name", "arguments"}], "tool_call_id"}`, without
empty keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from decisions.traces import names
from decisions.traces.spans import Span
from workspaces.storage.storable import is_storable, read_json

MAX_DEPTH = 24
MAX_CONTAINERS = 50_000
MAX_PATH = 12
"""Parts of a name; no convention has more than seven."""
PART_KINDS = frozenset([
    "text", "input_text", "output_text", "refusal", "reasoning", "thinking",
    "image", "image_url", "input_image", "audio", "input_audio", "video", "file", "document",
    "tool_call", "tool_use", "tool_call_response", "tool_result",
])  # fmt: skip
"""What some instrumentations write into a message's content as JSON. Any other JSON there is what was said."""
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


def messages_in(span: Span) -> list[Message]:
    found = _written(span, "messages_in", names.FLAT_MESSAGES_IN)
    if not found:
        found = [
            message
            for event in span.events
            if event.name in names.MESSAGE_EVENTS
            for message in read_messages([{"role": names.MESSAGE_EVENTS[event.name], **event.attributes}])
        ] or _from_content(span, names.PROMPT_EVENT, "gen_ai.prompt")
    instructions = names.find_value(span.attributes, "system_instructions")
    if instructions is not None:
        found = [*read_messages([{"role": "system", "content": instructions}]), *found]
    return found


def messages_out(span: Span) -> list[Message]:
    found = _written(span, "messages_out", names.FLAT_MESSAGES_OUT)
    if found:
        return found
    choices = [
        {
            "role": "assistant",
            **(inner if isinstance(inner := parse_text(event.attributes.get("message")), dict) else {}),
        }
        | ({"content": event.attributes["content"]} if "content" in event.attributes else {})
        for event in span.events
        if event.name == names.CHOICE_EVENT
    ]
    return read_messages(choices) or _from_content(span, names.COMPLETION_EVENT, "gen_ai.completion")


def _written(span: Span, wanted: str, prefixes: Iterable[str]) -> list[Message]:
    """On the span, or on the event that instrumentations use when the span would become too large."""
    for attributes in (span.attributes, *(e.attributes for e in span.events if e.name == names.DETAILS_EVENT)):
        given = parse_text(names.find_value(attributes, wanted))
        if isinstance(given, list):
            return read_messages(given)
    for prefix in prefixes:
        if isinstance(given := unflatten(span.attributes, prefix), list):
            return read_messages(given)
    return []


def _from_content(span: Span, event_name: str, attribute: str) -> list[Message]:
    for event in span.events:
        if event.name == event_name:
            given = event.attributes.get(attribute)
            inner = parse_text(given)
            if isinstance(inner, list) and inner and all(isinstance(one, dict) and "role" in one for one in inner):
                return read_messages(inner)
            role = "user" if event_name == names.PROMPT_EVENT else "assistant"
            return read_messages([{"role": role, "content": given}])
    return []


def read_messages(given: Sequence[Any]) -> list[Message]:
    """Any dialect's messages in ours. What is no message is left out."""
    made = []
    for one in given:
        if isinstance(one, dict):
            inner = one.get("message")
            message = _read_message(inner if isinstance(inner, dict) else one)
            if message:
                made.append(message)
    return made


@dataclass(slots=True)
class _Parts:
    """What one message is made of, as it is read."""

    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[Message] = field(default_factory=list)
    answers: str = ""


def _read_message(given: Mapping[str, Any]) -> Message:
    message: Message = {"role": str(given.get("role") or "user")}
    parts = _Parts()
    for content in (given.get("content"), parse_text(given.get("parts")), given.get("contents")):
        if (found := _parts_of(content)) is not None:
            _read_parts(found, parts)
        elif content is not None:
            parts.texts.append(_as_text(content))
    for call in calls if isinstance(calls := parse_text(given.get("tool_calls")), list) else ():
        if isinstance(call, dict):
            inner = call.get("tool_call")
            parts.calls.append(_read_call(inner if isinstance(inner, dict) else call))
    if isinstance(given.get("reasoning_content"), str):
        parts.reasoning.append(given["reasoning_content"])
    if message["role"] == "tool":
        named = (given.get(key) for key in ("tool_call_id", "id"))
        parts.answers = next((name for name in named if isinstance(name, str)), parts.answers)
    if parts.texts:
        message["content"] = "\n".join(parts.texts)
    if parts.reasoning:
        message["reasoning"] = "\n".join(parts.reasoning)
    if parts.calls:
        message["tool_calls"] = parts.calls
    if parts.answers:
        message["tool_call_id"] = parts.answers
    return message if len(message) > 1 else {}


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
            parts.texts.append(_as_text(one))
            continue
        inner = one.get("message_content")
        part: dict[str, Any] = inner if isinstance(inner, dict) else one
        kind = str(part.get("type") or "text")
        text = next((part[key] for key in ("content", "text", "thinking") if isinstance(part.get(key), str)), None)
        if kind in {"tool_call", "tool_use", "function"}:
            parts.calls.append(_read_call(part))
        elif kind in {"tool_call_response", "tool_result"}:
            answer = next((part[key] for key in ("response", "result", "content") if key in part), "")
            parts.texts.append(_as_text(answer))
            if isinstance(part.get("id"), str):
                parts.answers = part["id"]
        elif kind in {"reasoning", "thinking"}:
            parts.reasoning += [text] if text else []
        else:
            parts.texts.append(text if text is not None else f"[{kind}]" if "type" in part else _as_text(part))


def _read_call(given: Mapping[str, Any]) -> Message:
    inner = given.get("function")
    function = inner if isinstance(inner, dict) else given
    arguments = parse_text(next((function[key] for key in ("arguments", "input") if key in function), None))
    call: Message = {"name": str(function.get("name") or ""), "arguments": {} if arguments in (None, "") else arguments}
    if isinstance(given.get("id"), str):
        call["id"] = given["id"]
    return call


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def find_question(value: Any) -> str:
    """What a person asked, from what went in: the last user message, else the field that is usually the question."""
    given = parse_text(value)
    if isinstance(given, dict):
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
        said = [m for m in read_messages(given) if m.get("content")]
        if said:
            return str(said[-1]["content"])
    return _as_text(value)
