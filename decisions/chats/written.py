"""What a model wrote in one chat, gathered from a whole completion or from the chunks of a stream. PURE.

Both are in the form of `models_registry.backends.answers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from models_registry.backends.answers import read_token_ids
from workspaces.storage.storable import is_storable, read_json

USUAL = frozenset({"role", "content", "tool_calls"})
NUL = "\x00"


@dataclass(slots=True)
class Call:
    """A tool call as it grows; `arguments` is JSON text."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class Written:
    """`holds_more`: words and calls are not all, as with a refusal or reasoning that is told. `policy_logprob`: of what
    was written, under the policy that drew it; `token_ids`: what was drawn. Both where the server tells them
    (docs/model-server.md)."""

    parts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    finish_reason: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    holds_more: bool = False
    policy_logprob: float | None = None
    token_ids: list[int] | None = None

    @property
    def text(self) -> str:
        return _storable("".join(self.parts))

    @property
    def reasoning(self) -> str | None:
        """What the model thought before it answered, where its server says so."""
        return _storable("".join(self.thoughts)) or None

    @property
    def is_empty(self) -> bool:
        return not self.calls and not any(self.parts)

    @property
    def propensity(self) -> float | None:
        """1 where the model could write nothing else, as a greedy one. A sampled text has none that is exact: the same
        text may come of other tokens."""
        return 1.0 if self.policy_logprob == 0 else None

    @property
    def size(self) -> int:
        """Bytes of all that was written."""
        calls = [part for call in self.calls for part in (call.name, call.arguments)]
        return sum(len(part.encode(errors="replace")) for part in (*self.parts, *self.thoughts, *calls))

    def take_whole(self, answer: Mapping[str, Any]) -> None:
        """A chat.completion."""
        choice = answer["choices"][0]
        self._take_words(choice["message"], calls=choice["message"].get("tool_calls"))
        self._take_end(choice, answer)

    def take_chunk(self, chunk: Mapping[str, Any]) -> None:
        """A chat.completion.chunk."""
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            self._take_words(delta, calls=delta.get("tool_calls"))
            self._take_end(choice, {})
        self._take_usage(chunk)

    def _take_words(self, message: Mapping[str, Any], calls: Any) -> None:
        self.holds_more = self.holds_more or any(value for name, value in message.items() if name not in USUAL)
        if text := message.get("content"):
            self.parts.append(text)
        if thought := message.get("reasoning_content"):
            self.thoughts.append(thought)
        for piece in calls or ():
            index, function = piece["index"], piece["function"]
            self.calls += [Call() for _ in range(index + 1 - len(self.calls))]
            call = self.calls[index]
            call.id = piece.get("id") or call.id
            call.name += function.get("name") or ""
            call.arguments += function.get("arguments") or ""

    def _take_end(self, choice: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        if isinstance(measured := choice.get("reckoner"), Mapping):
            self.policy_logprob, self.token_ids = measured.get("policy_logprob"), read_token_ids(choice)
        self._take_usage(answer)

    def _take_usage(self, told: Mapping[str, Any]) -> None:
        usage = told.get("usage")
        if isinstance(usage, Mapping):
            self.tokens_in, self.tokens_out = usage.get("prompt_tokens"), usage.get("completion_tokens")

    def action(self, *, complete: bool = True) -> str | list[dict[str, Any]]:
        """What a decision keeps as its action: the tool calls, else the words."""
        return self.tool_calls(complete=complete) or self.text

    def tool_calls(self, *, complete: bool = True) -> list[dict[str, Any]]:
        """Each with its id, where the server gave one. Arguments that are no JSON object stand under `unread`; in an
        answer that is not complete such a call was not made yet, and is left out."""
        read = []
        for call in self.calls:
            named: dict[str, Any] = {"name": call.name}
            if call.id:
                named["id"] = _storable(call.id)
            arguments = _object(call.arguments or "{}")
            if arguments is not None:
                read.append(named | {"arguments": arguments})
            elif complete:
                read.append(named | {"arguments": {}, "unread": _storable(call.arguments)})
        return read


def _storable(text: str) -> str:
    """PostgreSQL takes every character but one."""
    return text.replace(NUL, "\ufffd")


def _object(text: str) -> dict[str, Any] | None:
    """None for what is no JSON object, or cannot be stored."""
    try:
        found = read_json(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and is_storable(found) else None
