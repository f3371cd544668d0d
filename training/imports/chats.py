"""Chats of a file as rows of texts: one for each of the assistant's turns, with all that was said before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models_registry.backends.chat_reading import OTHER_ROLES, holds_media, read_messages, read_tools
from models_registry.backends.chat_rows import Message, chat_as_text, reply_as_text


class LeftOut(Exception):
    """A decision of an export from which nothing can be learnt; its text says why. Nothing is wrong with the file."""


@dataclass(frozen=True, slots=True)
class ChatLine:
    """`messages`, the last one an answer, and the `tools` on offer. `last_only`: nothing but the last answer is learnt.
    `is_decision`: of an export, where nothing is wrong with what cannot be learnt. `as_chat`: one turn alone, after a
    system message, is a chat, too, as that was the client's own."""

    messages: Sequence[Mapping[str, Any]]
    tools: Any = None
    last_only: bool = False
    is_decision: bool = False
    as_chat: bool = False


def has_system(messages: Sequence[Mapping[str, Any]]) -> bool:
    role = messages[0].get("role") if messages else None
    return OTHER_ROLES.get(str(role), role) == "system"


def drop_system(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    return messages[1:] if has_system(messages) else messages


def read_turns(chat: ChatLine) -> list[dict[str, Any]]:
    """What was asked and answered in each turn, as columns of a row, in their order. Raises LeftOut for a decision
    without an answer, or with pictures, and ValueError for every other chat from which nothing can be learnt."""
    if fault := _find_fault(chat):
        raise LeftOut(fault) if chat.is_decision else ValueError(fault)
    messages, tools = read_messages(chat.messages), read_tools(chat.tools)
    return [_write_turn(messages[:index], messages[index], tools, chat) for index in _find_turns(messages, chat)]


def _find_fault(chat: ChatLine) -> str | None:
    """Raises ValueError for what is no message."""
    if holds_media(chat.messages):
        return "messages: hold pictures or other media, from which no model here learns"
    messages = read_messages(chat.messages)
    if not any(message["role"] == "assistant" for message in messages):
        return "has neither a prompt with a completion nor messages of user and assistant"
    if messages[-1]["role"] != "assistant":
        return f"messages: end with the {messages[-1]['role']}'s, which nobody answers; end with the assistant's"
    turns = list(_find_turns(messages, chat))
    if not turns:
        return "messages: have no answer of the assistant's to a message of the user's"
    if any(messages[index - 1]["role"] == "assistant" for index in turns):
        return "messages: have two of the assistant's in a row; join them"
    return None


def _find_turns(messages: Sequence[Message], chat: ChatLine) -> Iterator[int]:
    """The places of the answers. A greeting, before anybody asked, answers nothing."""
    first = next((index for index, one in enumerate(messages) if one["role"] in ("user", "tool")), len(messages))
    start = len(messages) - 1 if chat.last_only else first
    return (index for index in range(start, len(messages)) if messages[index]["role"] == "assistant" and index > first)


def _write_turn(
    messages: Sequence[Message], reply: Message, tools: Sequence[Message], chat: ChatLine
) -> dict[str, Any]:
    """One question alone, under a system prompt or none, is no chat: it has `prompt` and `system`."""
    *before, last = messages
    alone = last["role"] == "user" and len(before) <= has_system(messages) and not chat.as_chat
    calls = reply.get("tool_calls")
    if alone and not tools and not calls:
        system = {"system": before[0]["content"]} if before and before[0]["content"] else {}
        return {"prompt": last["content"], **system, "completion": reply["content"]}
    return {
        "prompt": chat_as_text(messages),
        "messages": list(messages),
        **({"tools": list(tools)} if tools else {}),
        "completion": reply_as_text(reply),
        **({"reply": reply} if calls else {}),
    }
