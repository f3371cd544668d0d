"""Puts the answers of OpenAI-compatible servers into one form, whatever liberties a server takes. PURE.

In that form content is text, every call has its own index and arguments as JSON text, reasoning stands in
`reasoning_content`, and token counts are whole numbers. Everything else passes unchanged. The liberties that servers
take are listed in docs/gateway.md ("Answers of other servers").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

MOST_WRITTEN = 1024 * 1024
"""Bytes of words, thoughts and calls: a decision holds no more, whoever records it."""
MOST_CALLS = 128
LONGEST_NAME = 1024
"""Characters of a call's function, all pieces together: longer ones would be copied again with each piece."""
MOST_TOKENS = 2**31 - 1
"""The largest count that the ledger stores."""
MOST_LISTED = MOST_WRITTEN // 4
"""Tokens of one answer that are kept one by one."""
COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
REASONING = ("reasoning_content", "reasoning")
REPLACEMENT = "\ufffd"


class MalformedAnswer(ValueError):
    """The answer is not a chat completion. The message continues "The server answered …"."""


def decode(body: bytes) -> Any:
    """JSON as servers send it: half a surrogate pair, NaN, numbers of any length and stray bytes are taken. Raises
    MalformedAnswer."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):  # bytes that are no UTF-8 are a ValueError
        pass
    try:
        return json.loads(body.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer("what is not JSON") from error


def read_completion(answer: Any) -> dict[str, Any]:
    """A whole chat.completion with exactly one choice. Raises MalformedAnswer."""
    if not isinstance(answer, Mapping):
        raise MalformedAnswer("without a message")
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        raise MalformedAnswer("without a message")
    choice = choices[0]
    if not isinstance(choice, Mapping) or not isinstance(choice.get("message"), Mapping):
        raise MalformedAnswer("without a message")
    reader = ChunkReader()
    message = reader.read_message(choice["message"], whole=True)
    read = {**answer, "choices": [{**choice, "index": 0, "message": message, "finish_reason": _reason(choice)}]}
    whole: dict[str, Any] = _with_whole_characters(_with_usage(read))
    return whole


def read_token_ids(choice: Mapping[str, Any]) -> list[int] | None:
    """Reads the tokens that our model server drew; None where another server has something else in that field."""
    told = choice.get("reckoner")
    ids = told.get("token_ids") if isinstance(told, Mapping) else None
    if not isinstance(ids, list) or len(ids) > MOST_LISTED or not all(type(one) is int for one in ids):
        return None
    return ids if all(0 <= one <= MOST_TOKENS for one in ids) else None


def read_count(value: Any) -> int | None:
    """A number of tokens; None where the server's value is no such number. Fractions are rounded."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(value) if 0 <= value <= MOST_TOKENS else None  # NaN is neither


@dataclass(slots=True)
class ChunkReader:
    """Reads the chunks of one stream, in their order.

    `finished`: the server gave a reason for the end, so that nothing is missing where it then closes the connection
    without [DONE].
    """

    finished: bool = False
    _ids: list[str] = field(default_factory=list)
    """The id of each call so far, "" where the server gave none."""
    _names: list[str] = field(default_factory=list)
    _identified: set[int] = field(default_factory=set)
    """The calls whose id has been told."""
    _at: dict[int, int] = field(default_factory=dict)
    """The newest call under each of the server's own indexes."""
    _written: int = 0
    """Bytes of words, thoughts and calls so far."""
    _held: dict[str, str] = field(default_factory=dict)
    """Half a character at the end of a field, which waits for its other half."""

    def read(self, chunk: Any) -> dict[str, Any]:
        """Raises MalformedAnswer."""
        if not isinstance(chunk, Mapping):
            raise MalformedAnswer("something that is not a chunk of a chat")
        choices = chunk.get("choices") or []
        if not isinstance(choices, list) or not all(isinstance(choice, Mapping) for choice in choices):
            raise MalformedAnswer("choices that are no objects")
        read = []
        for choice in choices[:1]:  # one answer was requested
            delta = choice.get("delta") or choice.get("message") or {}
            if not isinstance(delta, Mapping):
                raise MalformedAnswer("a delta that is no object")
            reason = _reason(choice)
            message = self._join_halves(self.read_message(delta, whole=False), last=reason is not None)
            rest = {name: value for name, value in choice.items() if name != "message"}
            read.append({**rest, "index": 0, "delta": message, "finish_reason": reason})
            self.finished = self.finished or reason is not None
        whole: dict[str, Any] = _with_whole_characters(_with_usage({**chunk, "choices": read}))
        return whole

    def read_message(self, message: Mapping[str, Any], *, whole: bool) -> dict[str, Any]:
        """`whole`: each of its calls is complete, and not a piece of one."""
        read = dict(message)
        if "content" in message:
            read["content"], thoughts = _read_content(message["content"])
            if thoughts:
                read["reasoning_content"] = thoughts
        for name in REASONING:
            if isinstance(message.get(name), str) and message[name]:
                read["reasoning_content"] = message[name]
                break
        if "tool_calls" in message:
            calls = message["tool_calls"] or []
            if not isinstance(calls, list) or not all(isinstance(call, Mapping) for call in calls):
                raise MalformedAnswer("calls of tools that are no objects")
            read["tool_calls"] = [self._read_call(call, whole=whole) for call in calls]
            if not calls:
                del read["tool_calls"]
        self._count(read)
        return read

    def _count(self, message: Mapping[str, Any]) -> None:
        """Raises MalformedAnswer where more is written than a decision holds."""
        calls = message.get("tool_calls", ())
        parts = [part for call in calls for part in (call.get("id"), call["function"].get("arguments"))]
        texts = [text for text in (message.get("content"), message.get("reasoning_content"), *parts) if text]
        self._written += sum(_bytes_of(text) for text in texts if isinstance(text, str))
        if self._written > MOST_WRITTEN:
            raise MalformedAnswer(f"more than {MOST_WRITTEN // 1024**2} MiB of words and calls")

    def _read_call(self, call: Mapping[str, Any], *, whole: bool) -> dict[str, Any]:
        function = call.get("function") or {}
        if not isinstance(function, Mapping):
            raise MalformedAnswer("a call whose function is no object")
        name, arguments, own_id = function.get("name") or "", function.get("arguments"), call.get("id") or ""
        if not isinstance(name, str):
            raise MalformedAnswer("a call whose function has no name")
        if arguments is not None and not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)  # an object, as Ollama's own protocol has it
        index = len(self._ids) if whole else self._place(call.get("index"), str(own_id), bool(name))
        if index == len(self._ids):
            if index == MOST_CALLS:
                raise MalformedAnswer(f"more than {MOST_CALLS} calls of tools")
            self._ids.append(str(own_id))
            self._names.append("")
        # Some repeat the whole name with every piece; no name is said in pieces that are equal to all before them.
        piece = "" if name == self._names[index] else name
        self._names[index] += piece
        if len(self._names[index]) > LONGEST_NAME:
            raise MalformedAnswer(f"a call whose function's name has more than {LONGEST_NAME} characters")
        read_function = {"name": piece} if piece else {}
        read_function |= {"arguments": arguments} if arguments is not None else {}
        rest = {key: value for key, value in call.items() if key not in {"index", "id", "function"}}
        own = {"id": str(own_id)} if own_id and index not in self._identified else {}
        self._identified.update({index} if own else ())  # clients put the ids of all pieces together
        return {"index": index, **own, **rest, "function": read_function}

    def _place(self, index: Any, own_id: str, named: bool) -> int:
        """The call that a piece belongs to: by its id, else by the server's index, else the newest."""
        numbered = isinstance(index, int) and not isinstance(index, bool)
        new = len(self._ids)
        if own_id and own_id in self._ids:
            place = self._ids.index(own_id)
        elif own_id:
            known = self._at.get(index) if numbered else None
            # A piece may bring the id of a call that was begun without one.
            place = known if known is not None and not self._ids[known] else new
            if place < new:
                self._ids[place] = own_id
        elif numbered:
            place = self._at.get(index, new)
        else:
            # Without id and index, a name begins a call; what follows it are arguments.
            place = new if not self._ids or (named and self._names[-1]) else new - 1
        if numbered:
            self._at[index] = place
        return place

    def _join_halves(self, message: dict[str, Any], *, last: bool) -> dict[str, Any]:
        """A server that cuts between the two halves of a surrogate pair sends each as an escape of its own."""
        for name in ("content", "reasoning_content"):
            text = message.get(name)
            if not isinstance(text, str) and not (last and name in self._held):
                continue
            text = self._held.pop(name, "") + (text or "")
            if text and not last and "\ud800" <= text[-1] <= "\udbff":
                self._held[name], text = text[-1], text[:-1]
            message[name] = _without_surrogates(text)
        return message


def _read_content(content: Any) -> tuple[str | None, str]:
    """The text, and the thoughts among its parts. Raises MalformedAnswer."""
    if content is None or isinstance(content, str):
        return content, ""
    if not isinstance(content, list):
        raise MalformedAnswer("content that is no text")
    texts, thoughts = [], []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, Mapping) and part.get("type") in {"thinking", "reasoning"}:
            thoughts.append(_read_content(part.get("thinking") or part.get("content"))[0] or "")
    return "".join(texts), "".join(thoughts)


def _reason(choice: Mapping[str, Any]) -> str | None:
    reason = choice.get("finish_reason")
    return reason[:64] if isinstance(reason, str) and reason else None


def _with_usage(answer: dict[str, Any]) -> dict[str, Any]:
    """Counts that are no numbers are left out, and usage where no count is left."""
    if "usage" not in answer:
        return answer
    usage = answer.pop("usage")
    if isinstance(usage, Mapping):
        counts = {name: read_count(usage.get(name)) for name in COUNTS}
        known = {name: count for name, count in counts.items() if count is not None}
        if known:
            answer["usage"] = {name: value for name, value in usage.items() if name not in COUNTS} | known
    return answer


def _with_whole_characters(value: Any) -> Any:
    """Wherever a half of a surrogate pair stands, it could not be sent on. Raises MalformedAnswer."""
    try:
        return _clean(value)
    except RecursionError as error:
        raise MalformedAnswer("what is nested too deeply") from error


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _without_surrogates(value)
    if isinstance(value, list):
        return list(map(_clean, value))
    if isinstance(value, dict):
        return {_without_surrogates(name): _clean(inner) for name, inner in value.items()}
    return value


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _without_surrogates(text: str) -> str:
    """Pairs are joined, and a half without its other becomes U+FFFD: UTF-8 has no form for it."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
