"""Reads the body of a chat: what the gateway itself needs is checked, everything else goes on to the model's server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from django.conf import settings
from msgspec import Meta, Struct

from decisions.chats.media import without_media
from decisions.ingest.decoding import fault_of
from decisions.ingest.schemas import Name
from decisions.traces.messages import find_question
from workspaces.errors import FieldFault, InvalidInput, TooLarge
from workspaces.http.parsing import MAX_BODY, check_body

T = TypeVar("T", bound=Struct)

OURS = (
    "model", "stream", "stream_options", "n", "user", "safety_identifier", "prompt_cache_key", "metadata", "store",
    "service_tier",
)  # fmt: skip
"""Parameters that the gateway takes itself, or that mean something at OpenAI alone."""
NO_PARAMETERS = frozenset({"messages", "tools", "response_format", *OURS}) - {"metadata"}
"""What a decision keeps elsewhere, or not at all; all else that a request says is a parameter of its answer."""
OF_THE_STATE = ("tools", "tool_choice", "response_format")
"""What the model was told beside the messages."""


class Message(Struct):
    role: Annotated[str, Meta(min_length=1, max_length=64)]


class Function(Struct):
    name: Annotated[str, Meta(min_length=1, max_length=64)]


class OfferedTool(Struct):
    type: Literal["function"]
    function: Function


class StreamOptions(Struct):
    include_usage: bool | None = None


class ChatBody(Struct):
    """The fields that are read here. `model` is a reference to an agent."""

    model: Annotated[str, Meta(min_length=1, max_length=200)]
    messages: Annotated[list[Message], Meta(min_length=1, max_length=1024)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    tools: Annotated[list[OfferedTool], Meta(max_length=128)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    user: Name | None = None
    safety_identifier: Name | None = None


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat as it was asked for. `body` goes to the server, `state` is what the agent knew: `input`, the last question
    of the user, `messages`, and what of OF_THE_STATE was given. `tools` are names. `unit` is who asks, if they said.
    `parameters`: what else the client said of how to answer, such as a seed, limits and its own metadata."""

    model: str
    body: Mapping[str, Any]
    state: Mapping[str, Any]
    stream: bool = False
    with_usage: bool = False
    tools: tuple[str, ...] = ()
    unit: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    temperature: float | None = None
    limited: bool = False


def read_json(body: bytes) -> dict[str, Any]:
    """Raises InvalidInput, TooLarge."""
    check_body(body, limit=settings.CHAT_BODY_BYTES)
    try:
        given = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The body is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise InvalidInput("The body is not a JSON object.")
    return given


def convert(given: Any, kind: type[T]) -> T:
    """Raises InvalidInput with the fault's place."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput("The request is invalid.", faults=[fault_of(error)]) from error


def read_chat(given: Mapping[str, Any]) -> Chat:
    """Raises InvalidInput, TooLarge."""
    read = convert(given, ChatBody)
    faults = []
    if read.n not in (None, 1):
        faults.append(FieldFault("n", f"is {read.n}: an answer is one decision", "1"))
    if read.stream_options is not None and not read.stream:
        faults.append(FieldFault("stream_options", "belongs to a stream", "stream: true, or none"))
    if faults:
        raise InvalidInput("The request is invalid.", faults=faults)
    kept = {name: given[name] for name in OF_THE_STATE if given.get(name) is not None}
    messages = without_media(given["messages"])
    parameters = {name: value for name, value in given.items() if name not in NO_PARAMETERS and value is not None}
    if (size := len(msgspec.json.encode([messages, kept, parameters]))) > MAX_BODY:
        raise TooLarge(f"The chat has {size} bytes without its pictures and files; at most {MAX_BODY} are allowed.")
    return Chat(
        model=read.model,
        body={name: value for name, value in given.items() if name not in OURS},
        state={"input": find_question(messages), "messages": messages, **kept},
        stream=bool(read.stream),
        with_usage=read.stream_options is not None and bool(read.stream_options.include_usage),
        tools=tuple(tool.function.name for tool in read.tools or ()),
        unit=read.user or read.safety_identifier,
        parameters=parameters,
        temperature=read.temperature,
        limited=(read.max_tokens or read.max_completion_tokens) is not None,
    )
