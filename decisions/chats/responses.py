"""The Responses API on the path of chats: input items become messages, and answers become items and their events.

Text, pictures and function tools are taken. What would need a memory of earlier responses, or tools that OpenAI runs
itself, is refused by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from decisions.chats.answering import Begun, Ended, summary_of
from decisions.chats.requests import Chat, convert, read_chat
from decisions.chats.written import Call, Written
from decisions.models.finish_reasons import read_finish_reason
from workspaces.errors import FieldFault, InvalidInput

UNSUPPORTED = ("previous_response_id", "conversation", "prompt", "background", "max_tool_calls", "context_management")
PASSED_ON = ("temperature", "top_p", "parallel_tool_calls", "user", "safety_identifier", "stream", "metadata")
INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""By why an answer ended: what Responses call it."""
TEXT_PARTS = frozenset({"input_text", "output_text", "text"})


class FunctionTool(Struct):
    type: Literal["function"]
    name: Annotated[str, Meta(min_length=1, max_length=64)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Format(Struct):
    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None
    description: str | None = None


class TextConfig(Struct):
    format: Format | None = None


class NamedTool(Struct):
    type: Literal["function"]
    name: str


class ResponseBody(Struct):
    input: str | Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=1024)]
    instructions: str | None = None
    tools: Annotated[list[FunctionTool], Meta(max_length=128)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    text: TextConfig | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None


def read_response(given: Mapping[str, Any]) -> Chat:
    """The chat that the request stands for. Raises InvalidInput."""
    faults = [
        FieldFault(name, "is not supported here", "none; send the whole conversation as input")
        for name in UNSUPPORTED
        if given.get(name)
    ]
    if faults:
        raise InvalidInput("The request uses something that is not supported here.", faults=faults)
    read = convert(given, ResponseBody)
    chat: dict[str, Any] = {name: given[name] for name in PASSED_ON if given.get(name) is not None}
    chat |= {"model": given.get("model"), "messages": _messages(read)}
    if read.max_output_tokens is not None:
        chat["max_tokens"] = read.max_output_tokens
    if read.tools:
        chat["tools"] = [{"type": "function", "function": _function(tool)} for tool in read.tools]
    if isinstance(read.tool_choice, NamedTool):
        chat["tool_choice"] = {"type": "function", "function": {"name": read.tool_choice.name}}
    elif read.tool_choice is not None and (read.tools or read.tool_choice != "auto"):
        chat["tool_choice"] = read.tool_choice
    if read.text is not None and (wanted := read.text.format) is not None and wanted.type != "text":
        chat["response_format"] = _format(wanted)
    return read_chat(chat)


def _function(tool: FunctionTool) -> dict[str, Any]:
    told = {"name": tool.name, "description": tool.description, "parameters": tool.parameters, "strict": tool.strict}
    return {name: value for name, value in told.items() if value is not None}


def _format(wanted: Format) -> dict[str, Any]:
    if wanted.type == "json_object":
        return {"type": "json_object"}
    told = {"name": wanted.name or "answer", "schema": wanted.schema, "strict": wanted.strict}
    return {"type": "json_schema", "json_schema": {name: value for name, value in told.items() if value is not None}}


def _messages(read: ResponseBody) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if read.instructions:
        messages.append({"role": "system", "content": read.instructions})
    if isinstance(read.input, str):
        return [*messages, {"role": "user", "content": read.input}]
    for index, item in enumerate(read.input):
        _add_item(messages, item, f"input[{index}]")
    return messages


def _add_item(messages: list[dict[str, Any]], item: Mapping[str, Any], place: str) -> None:
    """Calls of one turn stand in one message of the assistant, as chats have them."""
    kind = item.get("type") or "message"
    if kind == "message":
        messages.append({"role": item.get("role"), "content": _content(item.get("content"), f"{place}.content")})
    elif kind == "function_call":
        function = {"name": str(item.get("name", "")), "arguments": str(item.get("arguments", "{}"))}
        call = {"id": str(item.get("call_id", "")), "type": "function", "function": function}
        if messages and messages[-1]["role"] == "assistant":
            messages[-1].setdefault("tool_calls", []).append(call)
        else:
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    elif kind == "function_call_output":
        content = _content(item.get("output"), f"{place}.output")
        messages.append({"role": "tool", "tool_call_id": str(item.get("call_id", "")), "content": content})
    elif kind != "reasoning":  # what a model thought is OpenAI's own, encrypted
        fault = FieldFault(
            f"{place}.type", f"{str(kind)[:60]!r} is not supported", "message, function_call or its output"
        )
        raise InvalidInput("The input contains something that is not supported here.", faults=[fault])


def _content(content: Any, place: str) -> str | list[dict[str, Any]]:
    """Text; parts of text, joined; with a picture among them, the parts as chats have them."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidInput("The input is invalid.", faults=[FieldFault(place, "is not text", "text, or parts of text")])
    parts = [_part(part, f"{place}[{index}]") for index, part in enumerate(content)]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _part(part: Any, place: str) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind in TEXT_PARTS and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        detail = {"detail": part["detail"]} if part.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}
    fault = FieldFault(place, "is not supported", "input_text, output_text, or input_image with its image_url")
    raise InvalidInput("The input is invalid.", faults=[fault])


class ResponseShape:
    """A `decisions.chats.completions.Shape`. Items are told one after the other: the words, then each call."""

    def __init__(self, begun: Begun, given: Mapping[str, Any]) -> None:
        self._begun, self._given = begun, given
        self._written = Written()
        self._numbers = itertools.count()
        self._model = ""
        self._usage: Any = None
        self._told_calls = 0
        self._message_is_open = False
        self._why = ""

    # Whole

    def whole(self, answer: Mapping[str, Any], ended: Ended) -> dict[str, Any]:
        self._model, self._usage = str(ended.attempt.version), answer.get("usage")
        return self._response(self._end(ended.written), self._items(ended.written)) | {
            "reckoner": summary_of(self._begun, ended)
        }

    # Streamed

    def begin(self, ended: Ended) -> Iterator[bytes]:
        self._model = str(ended.attempt.version)
        for kind in ("response.created", "response.in_progress"):
            yield self._event(kind, response=self._response("in_progress", []))

    def grow(self, chunk: Mapping[str, Any]) -> Iterator[bytes]:
        self._usage = chunk.get("usage") or self._usage
        before = len(self._written.parts)
        arguments = [call.arguments for call in self._written.calls]
        self._written.take_chunk(chunk)
        for text in self._written.parts[before:] if self._message_is_open or not self._told_calls else ():
            if not self._message_is_open:
                yield from self._open_message()
            yield self._event("response.output_text.delta", **self._part(), delta=text, logprobs=[])
        for index, call in enumerate(self._written.calls):
            if index >= len(arguments):
                yield from self._close_last(index)
                item = self._call(index, "in_progress")
                yield self._event("response.output_item.added", **self._at(index), item=item)
                self._told_calls = index + 1
            grown = call.arguments[len(arguments[index]) if index < len(arguments) else 0 :]
            if grown:
                where = {"item_id": self._call_id(index), **self._at(index)}
                yield self._event("response.function_call_arguments.delta", **where, delta=grown)

    def finish(self, ended: Ended) -> Iterator[bytes]:
        yield from self._close_last(len(self._written.calls))
        state = self._end(ended.written)
        response = self._response(state, self._items(self._written)) | {"reckoner": summary_of(self._begun, ended)}
        yield self._event(f"response.{state}", response=response)

    def break_off(self, error: Mapping[str, Any]) -> Iterator[bytes]:
        told = {"code": "server_error", "message": error["error"]["message"]}
        response = self._response("failed", self._items(self._written)) | {"error": told}
        yield self._event("response.failed", response=response)

    def _end(self, written: Written) -> str:
        """The status of the answer at its end."""
        self._why = INCOMPLETE.get(read_finish_reason(written.finish_reason) or "", "")
        return "incomplete" if self._why else "completed"

    def _open_message(self) -> Iterator[bytes]:
        self._message_is_open = True
        item = {"id": self._message_id, "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        yield self._event("response.output_item.added", output_index=0, item=item)
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        yield self._event("response.content_part.added", **self._part(), part=part)

    def _close_last(self, calls: int) -> Iterator[bytes]:
        """Ends the item that was open, once it is known that the next one begins, or none."""
        if self._message_is_open and self._told_calls == 0:
            part = {"type": "output_text", "text": self._written.text, "annotations": [], "logprobs": []}
            yield self._event("response.output_text.done", **self._part(), text=self._written.text, logprobs=[])
            yield self._event("response.content_part.done", **self._part(), part=part)
            yield self._event("response.output_item.done", output_index=0, item=self._message(self._written))
        elif 0 < self._told_calls <= calls:
            index = self._told_calls - 1
            item = self._call(index, "completed")
            told = {"item_id": item["id"], "name": item["name"], "arguments": item["arguments"]}
            yield self._event("response.function_call_arguments.done", **self._at(index), **told)
            yield self._event("response.output_item.done", **self._at(index), item=item)

    def _event(self, kind: str, **fields: Any) -> bytes:
        body = msgspec.json.encode({"type": kind, "sequence_number": next(self._numbers), **fields})
        return b"event: " + kind.encode() + b"\ndata: " + body + b"\n\n"

    # Objects

    @property
    def _message_id(self) -> str:
        return f"msg_{self._begun.id.hex}"

    def _call_id(self, index: int) -> str:
        return f"fc_{self._begun.id.hex}_{index}"

    def _at(self, index: int) -> dict[str, int]:
        """A call's place among the items: the words, where there are any, come first."""
        return {"output_index": index + self._message_is_open}

    def _part(self) -> dict[str, Any]:
        return {"item_id": self._message_id, "output_index": 0, "content_index": 0}

    def _message(self, written: Written) -> dict[str, Any]:
        content = [{"type": "output_text", "text": written.text, "annotations": [], "logprobs": []}]
        head = {"id": self._message_id, "type": "message", "role": "assistant"}
        return head | {"status": "completed", "content": content}

    def _call(self, index: int, status: str) -> dict[str, Any]:
        return self._call_object(self._written.calls[index], index, status)

    def _call_object(self, call: Call, index: int, status: str) -> dict[str, Any]:
        arguments = call.arguments if status == "completed" else ""
        head = {"id": self._call_id(index), "type": "function_call", "call_id": call.id or self._call_id(index)}
        return head | {"name": call.name, "arguments": arguments, "status": status}

    def _items(self, written: Written) -> list[dict[str, Any]]:
        words = [self._message(written)] if any(written.parts) or not written.calls else []
        return words + [self._call_object(call, index, "completed") for index, call in enumerate(written.calls)]

    def _response(self, status: str, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        given = self._given
        return {
            "id": f"resp_{self._begun.id.hex}",
            "object": "response",
            "created_at": int(self._begun.opened_at.timestamp()),
            "status": status,
            "error": None,
            "incomplete_details": {"reason": self._why} if status == "incomplete" else None,
            "instructions": given.get("instructions"),
            "max_output_tokens": given.get("max_output_tokens"),
            "model": self._model,
            "output": list(items),
            "parallel_tool_calls": given.get("parallel_tool_calls") is not False,
            "previous_response_id": None,
            "store": False,
            "temperature": self._begun.temperature,
            "text": given.get("text") or {"format": {"type": "text"}},
            "tool_choice": given.get("tool_choice") or "auto",
            "tools": given.get("tools") or [],
            "top_p": given.get("top_p"),
            "truncation": "disabled",
            "usage": _usage(self._usage) if status in {"completed", "incomplete"} else None,
            "metadata": given.get("metadata") or {},
        }


def _usage(told: Any) -> dict[str, Any] | None:
    if not isinstance(told, Mapping):
        return None
    tokens_in, tokens_out = told.get("prompt_tokens") or 0, told.get("completion_tokens") or 0
    return {
        "input_tokens": tokens_in,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": tokens_out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens_in + tokens_out,
    }
