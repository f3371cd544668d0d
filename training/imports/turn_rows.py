"""Turns of chats as rows of texts and of preference pairs (training.engine.rows.types). PURE.

What a prompt with a system prompt says stands in these two fields; only chats of several turns, or with tools, keep
their messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from models_registry.backends.chat_rows import Message, chat_as_text, reply_as_text
from training.imports.chat_turns import Turn


def text_row(turn: Turn, tools: Sequence[Message] = (), *, as_chat: bool = False) -> dict[str, Any]:
    """A row of a text, without its id. `as_chat`: one question alone keeps its messages, too."""
    row = _asked(turn.before, tools, as_chat=as_chat or bool(turn.reply.get("tool_calls")))
    row["completion"] = reply_as_text(turn.reply)
    return row | ({"reply": turn.reply} if turn.reply.get("tool_calls") else {})


def pair_row(
    before: Sequence[Message], chosen: Message, rejected: Message, tools: Sequence[Message] = ()
) -> dict[str, Any]:
    """A row of two replies to the same messages, without its id."""
    replies = {"chosen": chosen, "rejected": rejected}
    calls = any(reply.get("tool_calls") for reply in replies.values())
    row = _asked(before, tools, as_chat=calls) | {name: reply_as_text(reply) for name, reply in replies.items()}
    return row | {f"{name}_reply": reply for name, reply in replies.items() if reply.get("tool_calls")}


def name_rows(rows: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The rows of one chat with their ids: `name` of one alone, of several `name`/1, `name`/2 in a group of that
    name."""
    if len(rows) == 1:
        return [{"id": name, **rows[0]}]
    return [{"id": f"{name}/{turn}", **row, "group": name} for turn, row in enumerate(rows, start=1)]


def _asked(before: Sequence[Message], tools: Sequence[Message], *, as_chat: bool) -> dict[str, Any]:
    roles = [message["role"] for message in before]
    if not tools and not as_chat and roles in (["user"], ["system", "user"]):
        system = {"system": before[0]["content"]} if len(before) == 2 and before[0]["content"] else {}
        return {"prompt": before[-1]["content"], **system}
    chat = {"prompt": chat_as_text(before), "messages": list(before)}
    return chat | ({"tools": list(tools)} if tools else {})
