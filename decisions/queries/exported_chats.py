"""A chat on its way out of the ledger: what was served, in the form of `models_registry.backends.chat_rows`.

Contents with pictures or other media keep their parts, as a client sent them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from decisions.agents.chat_actions import CHATTING, canonical_action
from decisions.agents.prompts import PromptError, is_chat, make_prompt
from decisions.agents.replies import is_calls, make_reply
from decisions.queries.exported import Exported
from models_registry.backends.chat_reading import ChatFault, holds_media, read_messages, read_tools
from models_registry.backends.chat_rows import Message, reply_as_text
from models_registry.backends.prompts import Prompt, put_before


@dataclass(frozen=True, slots=True)
class ServedChat:
    """`messages` up to the answer, after the version's system prompt; `reply`, the assistant's. `has_system`: the
    client sent a system message of its own."""

    messages: list[Any]
    tools: list[Message]
    reply: Message
    has_system: bool

    def with_tools(self) -> dict[str, Any]:
        return {"tools": self.tools} if self.tools else {}


def read_served_chat(row: Exported) -> ServedChat | None:
    """None of a decision that answered no chat. Raises PromptError for a chat that cannot be read."""
    state = msgspec.json.decode(row.state)
    if not isinstance(state, dict) or not is_chat(row.version, state):
        return None
    try:
        messages = read_messages(state["messages"], keep_media=True)
    except ChatFault as fault:
        raise PromptError(f"state.{fault.place}", fault.reason) from fault
    options = msgspec.json.decode(row.options) if row.options is not None else ()
    tools = read_tools(state.get("tools"))
    if not tools and len(messages) > 1:
        tools = list(make_prompt(row.version, state, options).tools)
    reply = make_reply(msgspec.json.decode(row.action), row.completion, tools)
    if reply is None:
        return None
    own = bool(messages) and messages[0]["role"] == "system"
    return ServedChat(list(put_before(row.version.system_prompt, messages)), tools, reply, own)


def write_answer(action: Any, words: str | None) -> str:
    """What a server wrote without a chat: a text as it is, calls as a JSON list, as models of ours are asked for them.
    `words`: what was said instead of calls, where the action has none."""
    if action == [] and words:
        return words
    if is_calls(action):
        return canonical_action(action)
    return action if isinstance(action, str) else msgspec.json.encode(action).decode()


def _read_written(row: Exported) -> ServedChat | None:
    """The chat of one turn that the agent's prompt was; None of an agent that chooses, and without a field of the
    prompt."""
    if row.version.action_space not in CHATTING:
        return None
    options = msgspec.json.decode(row.options) if row.options is not None else ()
    try:
        prompt = make_prompt(row.version, msgspec.json.decode(row.state), options)
    except PromptError:
        return None
    said = write_answer(msgspec.json.decode(row.action), row.completion)
    return ServedChat(prompt.as_messages(), [], {"role": "assistant", "content": said}, has_system=False)


def chat_fields(row: Exported) -> dict[str, Any] | None:
    """`messages`, the assistant's last, and `tools` where there are any; what the chat's metadata say besides, with the
    `state` where that is no chat. None of an agent that chooses. Raises PromptError."""
    chat, state = read_served_chat(row), {}
    if chat is None:
        chat, state = _read_written(row), {"state": msgspec.Raw(row.state.encode())}
    if chat is None:
        return None
    about: dict[str, Any] = {"systemPrompt": bool(row.version.system_prompt) and not chat.has_system, "chat": True}
    about |= state
    said = {"reasoning": row.reasoning, "confidence": row.confidence}
    about |= {name: value for name, value in said.items() if value is not None}
    return {"messages": [*chat.messages, chat.reply], **chat.with_tools(), "metadata": about}


def completion_fields(row: Exported, prompt: Prompt) -> dict[str, Any]:
    """Beside prompt and completion: the `messages` before the answer and the `tools`, and of an answer that calls tools
    the assistant's message as `reply`; nothing of a decision that is asked by its prompt alone. Raises PromptError."""
    chat = read_served_chat(row)
    if chat is None or not (prompt.messages or holds_media(chat.messages)):
        return {}
    reply = {"reply": chat.reply} if chat.reply.get("tool_calls") else {}
    return {"completion": reply_as_text(chat.reply), "messages": chat.messages, **chat.with_tools(), **reply}
