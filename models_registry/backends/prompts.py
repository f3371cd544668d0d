"""What a model is asked, before it is put in any server's protocol. PURE.

`decisions.agents.prompts` makes it of a decision; `models_registry.backends` and the rows of datasets write it down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SYSTEM = "system"
DEVELOPER = "developer"
"""OpenAI's newer name of the same role."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """`text` is the user's turn. `system` is what a model is told before it, "" where that is nothing."""

    text: str
    system: str = ""

    def as_messages(self, after: str = "") -> list[dict[str, str]]:
        """OpenAI's messages; `after` ends the user's turn."""
        told = [{"role": SYSTEM, "content": self.system}] if self.system else []
        return [*told, {"role": "user", "content": self.text + after}]


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
