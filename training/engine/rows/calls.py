"""Calls of tools in what a model wrote. No torch; the model server, evaluations and rewards of texts read them here.

Calls are read in the usual notations: `<tool_call>` blocks (Hermes, Qwen), or JSON, one call or a list of them, with
the key `arguments` or `parameters`, alone or below the model's words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from models_registry.backends.chat_rows import Message, reply_as_text

BLOCK = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|$)", re.DOTALL)
OPENING = "<tool_call>"
BELOW_WORDS = re.compile(r"\n\s*(?=\[\s*\{|\{)")
"""In front of a line that may begin a call, or a list of them."""
MAY_BE_BELOW = re.compile(r"\n\s*(?:\[?\s*$|\[\s*\{|\{)")
"""The same while the text still grows."""


@dataclass(frozen=True, slots=True)
class Call:
    """`arguments` is JSON text."""

    name: str
    arguments: str


def names_of(tools: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Names of tools, which are as rows and requests have them (models_registry.backends.chat_rows)."""
    return frozenset(tool["function"]["name"] for tool in tools)


def read_calls(text: str, names: Collection[str]) -> tuple[str, list[Call]]:
    """What a model wrote → its words and its calls. Text that is no call of a tool on offer stays text."""
    blocks = BLOCK.findall(text)
    if blocks:
        found = [_calls_of(block, names) for block in blocks]
        if all(found):
            words = text[: text.index(OPENING)]
            return words if words.strip() else "", [call for calls in found if calls for call in calls]
        return text, []
    if calls := _calls_of(text.strip(), names):
        return "", calls
    for below in BELOW_WORDS.finditer(text):
        if calls := _calls_of(text[below.end() :].strip(), names):
            return text[: below.start()], calls
    return text, []


def certain_words(text: str) -> int:
    """How many characters of a text that still grows are words for certain, and no part of a call."""
    opened = text.find(OPENING)
    if opened >= 0:
        return opened if text[:opened].strip() else 0
    if text.lstrip()[:1] in ("", "{", "["):
        return 0
    if below := MAY_BE_BELOW.search(text):
        return below.start()
    for length in range(min(len(OPENING) - 1, len(text)), 0, -1):
        if OPENING.startswith(text[-length:]):
            return len(text) - length
    return len(text)


def as_reply(text: str, tools: Iterable[Mapping[str, Any]]) -> Message:
    """What a model wrote as the assistant's message: its words, and its calls of the tools on offer."""
    words, calls = read_calls(text, names_of(tools))
    reply: Message = {"role": "assistant", "content": words}
    if calls:
        reply["content"] = words.strip()
        reply["tool_calls"] = [
            {"type": "function", "function": {"name": call.name, "arguments": json.loads(call.arguments)}}
            for call in calls
        ]
    return reply


def as_completion(text: str, tools: Iterable[Mapping[str, Any]]) -> str:
    """What a model wrote as rows have completions: in one notation where it calls tools on offer, else as it is."""
    reply = as_reply(text, tools)
    return reply_as_text(reply) if "tool_calls" in reply else text


def _calls_of(text: str, names: Collection[str]) -> list[Call] | None:
    if not text.startswith(("{", "[")):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    calls = []
    for one in found if isinstance(found, list) else [found]:
        arguments = one.get("arguments", one.get("parameters", {})) if isinstance(one, dict) else None
        if not isinstance(arguments, dict) or not isinstance(one.get("name"), str) or one["name"] not in names:
            return None
        try:
            text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
            text.encode()
        except ValueError:  # NaN, infinite, or half of a surrogate pair: none can be sent as JSON
            return None
        calls.append(Call(one["name"], text))
    return calls
