"""Answers in the shape of chat completions: what the model's server said, under our id and the version's name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import msgspec

from decisions.answer_ids import CHAT, name_answer
from decisions.chats.answering import Begun, Ended, summary_of

DONE = b"data: [DONE]\n\n"


class Shape(Protocol):
    """How the answer to one chat is told. Of a stream, `finish` is told after the decision is committed."""

    def whole(self, answer: Mapping[str, Any], ended: Ended) -> dict[str, Any]: ...
    def begin(self, ended: Ended) -> Iterator[bytes]: ...
    def grow(self, chunk: Mapping[str, Any]) -> Iterator[bytes]: ...
    def finish(self, ended: Ended) -> Iterator[bytes]: ...
    def break_off(self, error: Mapping[str, Any]) -> Iterator[bytes]: ...


def _without_indexes(choice: Mapping[str, Any]) -> dict[str, Any]:
    """A whole answer's calls stand in their order: OpenAI numbers those of streams only."""
    message = dict(choice["message"])
    if calls := message.get("tool_calls"):
        message["tool_calls"] = [{name: value for name, value in call.items() if name != "index"} for call in calls]
    return {**choice, "message": message}


def event(body: Any) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


class ChatShape:
    """A `Shape`."""

    def __init__(self, begun: Begun) -> None:
        self._begun = begun
        self._head: dict[str, Any] = {"id": name_answer(CHAT, begun.id)}
        self._created = int(begun.opened_at.timestamp())
        self._usage: Any = None

    def whole(self, answer: Mapping[str, Any], ended: Ended) -> dict[str, Any]:
        self._name(ended)
        told = {"object": "chat.completion", "created": self._created, **answer}
        told["choices"] = [_without_indexes(choice) for choice in answer["choices"]]
        return told | self._head | {"reckoner": summary_of(self._begun, ended)}

    def begin(self, ended: Ended) -> Iterator[bytes]:
        self._name(ended)
        yield from ()

    def grow(self, chunk: Mapping[str, Any]) -> Iterator[bytes]:
        """The usage waits for the end: it comes with the decision, and only to who asked for it."""
        told = {"object": "chat.completion.chunk", "created": self._created, **chunk} | self._head
        told.pop("reckoner", None)
        self._usage = told.pop("usage", None) or self._usage
        if told.get("choices"):
            yield event(told)

    def finish(self, ended: Ended) -> Iterator[bytes]:
        if self._begun.chat.with_usage:
            head = {"object": "chat.completion.chunk", "created": self._created, **self._head}
            yield event(
                head | {"choices": [], "usage": self._usage, "reckoner": summary_of(self._begun, ended)},
            )
        yield DONE

    def break_off(self, error: Mapping[str, Any]) -> Iterator[bytes]:
        """No [DONE] follows."""
        yield event(error)

    def _name(self, ended: Ended) -> None:
        self._head["model"] = str(ended.attempt.version)
