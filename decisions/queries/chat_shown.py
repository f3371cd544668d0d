"""A chat as pages show it: messages as turns, each call with its tool's result, and the tools on offer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.template.defaultfilters import filesizeformat

from decisions.agents.prompts import as_text
from decisions.traces.messages import find_question
from models_registry.backends.chat_reading import ChatFault, has_messages, read_message, read_tools
from workspaces.templatetags import show

LONG_TEXT = 1_200
"""Longer values get a box of their own to scroll in."""
MOST_TURNS, LAST_TURNS = 40, 20
"""A longer chat shows its last turns, and the earlier ones folded."""
MEDIA = {
    "image_url": "picture", "input_image": "picture", "image": "picture", "input_audio": "sound", "audio": "sound",
    "file": "file", "input_file": "file",
}  # fmt: skip
LONGEST_ADDRESS = 120
REPEATED = ("messages", "tools")
"""What of a state the turns and tools show."""
HOW_TO_ANSWER = ("tool_choice", "parallel_tool_calls", "response_format")


@dataclass(frozen=True, slots=True)
class Speech:
    """A piece of what a message says: its words, or `medium`, what stands for a picture, sound or file."""

    text: str
    medium: bool = False

    @property
    def long(self) -> bool:
        return len(self.text) > LONG_TEXT


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A tool call: `arguments` is indented JSON, or what the model wrote where that is none."""

    name: str
    arguments: str
    id: str = ""
    results: tuple[tuple[Speech, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. `answers` is the id of the call that it answers, where no call of that id stands before it."""

    number: int
    role: str
    name: str
    speech: tuple[Speech, ...]
    reasoning: str
    calls: tuple[ShownCall, ...]
    answers: str = ""


@dataclass(frozen=True, slots=True)
class ShownTool:
    name: str
    description: str
    parameters: str


@dataclass(frozen=True, slots=True)
class ShownChat:
    turns: tuple[Turn, ...]
    tools: tuple[ShownTool, ...]

    @property
    def earlier(self) -> tuple[Turn, ...]:
        return self.turns[:-LAST_TURNS] if len(self.turns) > MOST_TURNS else ()

    @property
    def latest(self) -> tuple[Turn, ...]:
        return self.turns[len(self.earlier) :]


def show_chat(state: Any) -> ShownChat | None:
    """None where the state is no chat, or one that cannot be read."""
    if not isinstance(state, Mapping) or not has_messages(state):
        return None
    messages = state["messages"]
    try:
        read = [read_message(message, f"messages[{index}]") for index, message in enumerate(messages)]
    except ChatFault:
        return None
    under, results = _place_results(read, messages)
    turns = []
    for index, (message, written) in enumerate(zip(read, messages, strict=True)):
        if index in under:
            continue
        calls = [
            _show_call(call, results.get((index, place), ()))
            for place, call in enumerate(message.get("tool_calls", ()))
        ]
        turns.append(
            Turn(
                number=index + 1,
                role=written["role"],
                name=written["name"] if isinstance(written.get("name"), str) else "",
                speech=_show_speech(written, message["content"]),
                reasoning=next(
                    (text for field in ("reasoning_content", "reasoning") if (text := _text(written, field))), ""
                ),
                calls=tuple(calls),
                answers=message.get("tool_call_id", ""),
            )
        )
    return ShownChat(tuple(turns), tuple(map(_show_tool, read_tools(state.get("tools")))))


def show_calls(action: Any) -> tuple[ShownCall, ...]:
    """The calls of an answer, {name, arguments, id}; empty where it is none."""
    if not isinstance(action, list) or not all(
        isinstance(call, Mapping) and isinstance(call.get("name"), str) for call in action
    ):
        return ()
    return tuple(
        ShownCall(
            call["name"], show.indented(call.get("unread", call.get("arguments", {}))), as_text(call.get("id", ""))
        )
        for call in action
    )


def find_rest(state: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a state with a chat that neither its messages nor its tools show."""
    question = "".join(find_question(state["messages"]).split())
    repeats = "".join(str(state.get("input") or "").split()) in question
    return {name: value for name, value in state.items() if name not in (*REPEATED, *(("input",) if repeats else ()))}


def summarise_chat(chat: ShownChat, state: Mapping[str, Any]) -> str:
    """The last question in words, with what the state holds beyond the chat and how it is to be answered."""
    last = next((turn for turn in reversed(chat.turns) if turn.role in ("user", "human") and turn.speech), None)
    words = " ".join(piece.text for piece in last.speech if not piece.medium) if last else ""
    apart = (*REPEATED, "input", *HOW_TO_ANSWER)
    rest = [value for name, value in state.items() if name not in apart]
    return " · ".join(map(as_text, [words or state.get("input") or find_question(state["messages"]), *rest]))


def _place_results(
    read: Sequence[Mapping[str, Any]], written: Sequence[Mapping[str, Any]]
) -> tuple[set[int], dict[tuple[int, int], tuple[tuple[Speech, ...], ...]]]:
    """The messages that stand under a call, and what stands under each: the last one before them of their id."""
    calls: dict[str, tuple[int, int]] = {}
    under, results = set(), dict[tuple[int, int], tuple[tuple[Speech, ...], ...]]()
    for index, message in enumerate(read):
        for place, call in enumerate(message.get("tool_calls", ())):
            calls[call.get("id", "")] = (index, place)
        key = calls.get(message.get("tool_call_id", "")) if message.get("tool_call_id") else None
        if key is not None:
            under.add(index)
            results[key] = (*results.get(key, ()), _show_speech(written[index], message["content"]))
    return under, results


def _show_call(call: Mapping[str, Any], results: tuple[tuple[Speech, ...], ...]) -> ShownCall:
    function = call["function"]
    return ShownCall(function["name"], show.indented(function["arguments"]), call.get("id", ""), results)


def _show_speech(message: Mapping[str, Any], text: str) -> tuple[Speech, ...]:
    """`text`: the content as words alone."""
    content = message.get("content")
    if not isinstance(content, list):
        return (Speech(_indent(text) if message["role"] == "tool" else text),) if text else ()
    return tuple(filter(None, map(_show_part, content)))


def _show_part(part: Any) -> Speech | None:
    if isinstance(part, str):
        return Speech(part)
    for field in ("text", "refusal", "thinking", "reasoning"):
        if text := _text(part, field):
            return Speech(text)
    kind = str(part.get("type") or "text")
    if kind == "text":
        return None
    held = part.get(kind)
    held = held if isinstance(held, Mapping) else {"url": held} if isinstance(held, str) else part
    known = [_text(held, "media_type") or _text(held, "format"), _text(held, "filename")]
    known.append(filesizeformat(held["bytes"]) if isinstance(held.get("bytes"), int) else "")
    known.append(_text(held, "url")[:LONGEST_ADDRESS])
    return Speech(", ".join([MEDIA.get(kind, kind), *filter(None, known)]), medium=True)


def _indent(text: str) -> str:
    """Text that is a JSON object or list, indented; all other text as it is."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def _show_tool(tool: Mapping[str, Any]) -> ShownTool:
    function = tool["function"]
    return ShownTool(function["name"], function["description"], show.indented(function["parameters"]))


def _text(holder: Mapping[str, Any], field: str) -> str:
    value = holder.get(field)
    return value if isinstance(value, str) else ""
