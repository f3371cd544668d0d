"""Chats that are not written as OpenAI's messages: ShareGPT's, Anthropic's HH-RLHF, Alpaca's with a history. PURE.

Each function gives messages for training.imports.chat_turns, or raises ValueError, naming the place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

USER, ASSISTANT, SYSTEM, TOOL, CALL = "user", "assistant", "system", "tool", "call"
SPEAKERS: Mapping[str, str] = {
    **dict.fromkeys(("human", "user"), USER),
    **dict.fromkeys(("gpt", "assistant", "bot", "model", "chatgpt", "bing", "bard"), ASSISTANT),
    **dict.fromkeys(("system",), SYSTEM),
    **dict.fromkeys(("observation", "tool", "function", "function_response", "tool_response"), TOOL),
    **dict.fromkeys(("function_call", "tool_call"), CALL),
}
"""Who speaks by the names that ShareGPT's files have."""
HUMAN, HELPER = "\n\nHuman:", "\n\nAssistant:"
TURN = re.compile(r"\n\n(Human|Assistant):")


def from_sharegpt(conversation: Any, field: str = "conversations") -> list[dict[str, Any]]:
    """Reads a list of {from, value}; {role, content} is taken too."""
    if not isinstance(conversation, list):
        raise ValueError(f"{field}: is not a list")
    return [_message(one, f"{field}[{index}]") for index, one in enumerate(conversation)]


def _message(given: Any, place: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"{place}: is not an object")
    if "from" not in given and "role" in given:
        return dict(given)
    speaker = SPEAKERS.get(str(given.get("from")).lower())
    if speaker is None:
        raise ValueError(f"{place}.from: {given.get('from')!r} must be one of {', '.join(SPEAKERS)}")
    if "value" not in given:
        raise ValueError(f"{place}.value: is missing")
    if speaker != CALL:
        return {"role": speaker, "content": given["value"]}
    try:
        calls = msgspec.json.decode(given["value"]) if isinstance(given["value"], str) else given["value"]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}.value: is no call as JSON: {error}") from error
    return {"role": ASSISTANT, "content": "", "tool_calls": calls if isinstance(calls, list) else [calls]}


def is_dialogue(text: Any) -> bool:
    """Whether it is written as HH-RLHF's are."""
    return isinstance(text, str) and text.lstrip().startswith(HUMAN.lstrip())


def from_dialogue(text: str, field: str) -> list[dict[str, Any]]:
    """Reads "\\n\\nHuman: … \\n\\nAssistant: …"; an Assistant who says nothing at the end is where the reply begins."""
    _, *parts = TURN.split("\n\n" + text.lstrip())
    names = {"Human": USER, "Assistant": ASSISTANT}
    messages = [
        {"role": names[name], "content": said.strip()} for name, said in zip(parts[::2], parts[1::2], strict=True)
    ]
    if not messages:
        raise ValueError(f"{field}: has no {HUMAN.strip()}")
    return messages if messages[-1]["content"] else messages[:-1]


def from_history(history: Any) -> list[dict[str, Any]]:
    """Reads Alpaca's list of [what was asked, what was answered]."""
    if not isinstance(history or [], list):
        raise ValueError("history: is not a list")
    messages = []
    for index, pair in enumerate(history or ()):
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise ValueError(f"history[{index}]: is no pair of a question and an answer")
        messages += [{"role": USER, "content": pair[0]}, {"role": ASSISTANT, "content": pair[1]}]
    return messages
