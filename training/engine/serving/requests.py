"""The typed bodies that clients send, and their translation for the model thread.

msgspec names the place of a fault ("at `$.items[3].options`"). As in OpenAI's servers, unknown parameters of a chat
request are ignored; known ones that would change the answer and are not supported are refused by name.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from training.engine.serving.chat import ChatRequest
from training.engine.serving.faults import Fault
from training.engine.serving.scoring import Question

T = TypeVar("T")


class ScoreItem(Struct):
    model: str
    prompt: str
    options: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1, max_length=4096)]
    max_prompt_tokens: Annotated[int, Meta(ge=4, le=131_072)] = 64


class ScoreBody(Struct):
    items: Annotated[list[ScoreItem], Meta(min_length=1, max_length=256)]


class LoadBody(Struct):
    model: str


class Part(Struct):
    type: str
    text: str | None = None


class Message(Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None


class ResponseFormat(Struct):
    type: str


class ChatBody(Struct):
    model: str
    messages: Annotated[list[Message], Meta(min_length=1, max_length=1024)]
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    seed: int | None = None
    stop: str | Annotated[list[str], Meta(max_length=4)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    n: int | None = None
    stream: bool | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    response_format: ResponseFormat | None = None
    logit_bias: dict[str, float] | None = None


def parse(raw: bytes, body: type[T]) -> T:
    """Raises Fault invalid_request that says what is wrong and where."""
    try:
        return msgspec.json.decode(raw, type=body)
    except msgspec.ValidationError as error:
        _, _, place = str(error).partition(" - at ")
        raise Fault("invalid_request", str(error), place.strip("`").removeprefix("$.") or None) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Fault("invalid_request", f"the body is not JSON that can be read: {error}") from error


def questions_of(body: ScoreBody) -> list[Question]:
    """Raises Fault for options that repeat."""
    for index, item in enumerate(body.items):
        if len(set(item.options)) < len(item.options):
            raise Fault(
                "invalid_request", f"items[{index}].options holds the same option twice", f"items[{index}].options"
            )
    return [Question(item.model, item.prompt, tuple(item.options), item.max_prompt_tokens) for item in body.items]


def chat_request_of(body: ChatBody) -> ChatRequest:
    """Raises Fault unsupported_parameter or invalid_request."""
    _refuse_unsupported(body)
    stops = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    return ChatRequest(
        model=body.model,
        messages=tuple(_plain(index, message) for index, message in enumerate(body.messages)),
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        max_tokens=body.max_completion_tokens or body.max_tokens,
        seed=body.seed,
        stop=tuple(stop for stop in stops if stop),
        top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
    )


def _refuse_unsupported(body: ChatBody) -> None:
    refused = {
        "stream": bool(body.stream),
        "n": body.n not in (None, 1),
        "tools": bool(body.tools),
        "functions": bool(body.functions),
        "logit_bias": bool(body.logit_bias),
        "response_format": body.response_format is not None and body.response_format.type != "text",
    }
    for name, asked in refused.items():
        if asked:
            raise Fault("unsupported_parameter", f"this server does not support {name}; leave it out", name)


def _plain(index: int, message: Message) -> dict[str, str]:
    """Text parts are joined; `developer` is what newer clients call the system's role."""
    place = f"messages[{index}].content"
    role = "system" if message.role == "developer" else message.role
    if isinstance(message.content, str):
        return {"role": role, "content": message.content}
    if message.content is None:
        raise Fault("invalid_request", f"{place} is empty", place)
    if any(part.type != "text" or part.text is None for part in message.content):
        raise Fault("unsupported_parameter", f"{place} may hold parts of type text only", place)
    return {"role": role, "content": "".join(part.text or "" for part in message.content)}
