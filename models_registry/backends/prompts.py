"""What a model is asked, before it is put in any server's protocol. PURE.

`decisions.agents.prompts` makes it of a decision; `models_registry.backends` and the rows of datasets write it down.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models_registry.backends.chat_rows import Message

SYSTEM = "system"
DEVELOPER = "developer"
"""OpenAI's newer name of the same role."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """`text` is the user's turn. `system` is what a model is told before it, "" where that is nothing.

    A chat of several turns, or with tools, has `messages`, all of them up to where the reply begins, the system's too,
    and `tools`, those on offer, both in the form of `chat_rows`. `text` is then the chat as plain text, and `system`
    "".
    """

    text: str
    system: str = ""
    messages: tuple[Message, ...] = ()
    tools: tuple[Message, ...] = ()

    def as_messages(self, after: str = "") -> list[dict[str, Any]]:
        """OpenAI's messages; `after` ends the last one."""
        if self.messages:
            *before, last = map(as_sent, self.messages)
            return [*before, {**last, "content": last["content"] + after}]
        told = [{"role": SYSTEM, "content": self.system}] if self.system else []
        return [*told, {"role": "user", "content": self.text + after}]


def as_sent(message: Message) -> dict[str, Any]:
    """The message as OpenAI's protocol has it: arguments are JSON text, and every call has an id."""
    if not message.get("tool_calls"):
        return dict(message)
    calls = [
        {
            "id": call.get("id") or f"call_{number}",
            "type": "function",
            "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"])},
        }
        for number, call in enumerate(message["tool_calls"])
    ]
    return {**message, "tool_calls": calls}


def put_before(system: str, messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """OpenAI's messages with the system prompt in front. A system message of their own at the beginning follows in the
    same message, after an empty line: many chat templates take only one, and only as the first."""
    if not system:
        return list(messages)
    first = messages[0]
    if first.get("role") not in (SYSTEM, DEVELOPER):
        return [{"role": SYSTEM, "content": system}, *messages]
    own = first.get("content")
    if isinstance(own, list):  # parts of text
        content: Any = [{"type": "text", "text": f"{system}\n\n"}, *own]
    else:
        content = f"{system}\n\n{own}" if own else system
    return [{**first, "content": content}, *messages[1:]]
