"""The typed bodies that clients send, and their translation for the model thread; those of chats are in
`chat_requests`. msgspec names the place of a fault ("at `$.items[3].options`")."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from training.engine.rows.types import Prompt
from training.engine.serving.faults import Fault
from training.engine.serving.scoring import Question

T = TypeVar("T")


class ScoreItem(Struct):
    model: str
    prompt: str
    options: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1, max_length=4096)]
    max_prompt_tokens: Annotated[int, Meta(ge=4, le=131_072)] = 64
    system: str = ""


class ScoreBody(Struct):
    items: Annotated[list[ScoreItem], Meta(min_length=1, max_length=256)]


class LoadBody(Struct):
    model: str


# msgspec learns a type when its first decoder is made, and not safely in two threads: a segmentation fault with 0.22.
READ_SCORE, READ_LOAD = msgspec.json.Decoder(ScoreBody), msgspec.json.Decoder(LoadBody)


def probe_of(model: str) -> Question:
    """A short question with two options, to see whether a model that was loaded can score."""
    return Question(model, Prompt("Which letter comes first?"), ("a", "b"), 16)


def parse(raw: bytes, body: msgspec.json.Decoder[T]) -> T:
    """`body`: one of the decoders. Raises Fault invalid_request that says what is wrong and where."""
    try:
        return body.decode(raw)
    except msgspec.ValidationError as error:
        _, _, place = str(error).partition(" - at ")
        raise Fault("invalid_request", str(error), place.strip("`").removeprefix("$.") or None) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Fault("invalid_request", f"the body cannot be read as JSON: {error}") from error


def questions_of(body: ScoreBody) -> list[Question]:
    """Raises Fault for options that repeat."""
    for index, item in enumerate(body.items):
        if len(set(item.options)) < len(item.options):
            raise Fault(
                "invalid_request", f"items[{index}].options holds the same option twice", f"items[{index}].options"
            )
    return [
        Question(item.model, Prompt(item.prompt, item.system), tuple(item.options), item.max_prompt_tokens)
        for item in body.items
    ]
