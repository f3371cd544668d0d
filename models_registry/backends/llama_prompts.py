"""Cuts prompts for a model of ours at llama.cpp's server (capability `grammar`), as training and our model server do.

The server counts tokens by the model's own tokenizer, at /tokenize beside /v1. Prompts with fewer bytes than the limit
has tokens are not asked about: no tokenizer makes more tokens of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from models_registry.backends.endpoint import Endpoint, ScoreItem, WriteItem
from models_registry.errors import BackendRefused, BackendUnavailable
from models_registry.prompt_cut import cut_middle, find_gap, find_room_fault
from models_registry.prompts import Prompt

Call = Callable[[Endpoint, str, str, Any, float], dict[str, Any]]
"""`openai.call`: endpoint, method, path, body, seconds."""
LEAST_SECONDS = 0.05


def cut_prompt(call: Call, endpoint: Endpoint, item: ScoreItem | WriteItem, seconds: float) -> Prompt:
    """Its prompt, without the middle of the text where that and the system prompt have more than `max_prompt_tokens`
    tokens. Raises as `call` does, BackendUnavailable where the server's tokens do not spell the text, BackendRefused
    for a system prompt that leaves no room."""
    prompt, most = item.prompt, item.max_prompt_tokens
    if len(prompt.system.encode()) + len(prompt.text.encode()) < most:
        return prompt
    tokenizer, ends = replace(endpoint, url=endpoint.url.removesuffix("/v1")), time.monotonic() + seconds

    def spans_of(text: str) -> list[tuple[int, int]]:
        body = {"model": item.model, "content": text, "add_special": False, "parse_special": False, "with_pieces": True}
        answer = call(tokenizer, "POST", "/tokenize", body, max(ends - time.monotonic(), LEAST_SECONDS))
        try:
            return _find_spans(text, [_bytes_of(one["piece"]) for one in answer["tokens"]])
        except (KeyError, TypeError, ValueError) as error:
            raise BackendUnavailable(f"{endpoint.name} cannot count the tokens of a prompt: {error}.") from error

    system = len(spans_of(prompt.system)) if prompt.system else 0
    if fault := find_room_fault(system, most):
        raise BackendRefused(fault)
    room = most - system
    spans = spans_of(prompt.text)
    if len(spans) <= room:
        return prompt
    gap = find_gap(room)
    cut = cut_middle(prompt.text, spans, room=room, gap=gap, gap_tokens=len(spans_of(gap)))
    return Prompt(cut, prompt.system)


def _bytes_of(piece: str | Sequence[int]) -> bytes:
    """The server gives a token that is no UTF-8 by itself as a list of bytes."""
    return piece.encode() if isinstance(piece, str) else bytes(piece)


def _find_spans(text: str, pieces: list[bytes]) -> list[tuple[int, int]]:
    """Begin and end in characters; a token that is a part of a character has the whole one. Raises ValueError."""
    written = text.encode()
    ahead = 1 if b"".join(pieces) == b" " + written else 0  # SentencePiece puts a space in front
    if b"".join(pieces)[ahead:] != written:
        raise ValueError("its tokens do not add up to its text")
    character_at = [place for place, character in enumerate(text) for _ in character.encode()]
    spans, end = [], -ahead
    for piece in pieces:
        begin, end = end, end + len(piece)
        spans.append((character_at[max(begin, 0)], character_at[max(end, 1) - 1] + 1))
    return spans
