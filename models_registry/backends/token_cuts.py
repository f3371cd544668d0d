"""Cuts prompts for a model of ours at llama.cpp's server or at vLLM (capability `grammar`), as training and our model
server do.

The server counts tokens by the model's own tokenizer, at /tokenize beside /v1. Prompts with fewer bytes than the limit
has tokens are not asked about: no tokenizer makes more tokens of them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from models_registry.backends.endpoint import Endpoint, ScoreItem, WriteItem
from models_registry.backends.prompt_cut import cut_middle, find_gap, find_room_fault
from models_registry.backends.prompts import Prompt
from models_registry.errors import BackendRefused, BackendUnavailable
from models_registry.models import BackendKind

Call = Callable[[Endpoint, str, str, Any, float], dict[str, Any]]
"""`openai.call`: endpoint, method, path, body, seconds."""
LEAST_SECONDS = 0.05


def cut_prompt(call: Call, endpoint: Endpoint, item: ScoreItem | WriteItem, seconds: float) -> Prompt:
    """Its prompt, without the middle of the text where that and the system prompt have more than `max_prompt_tokens`
    tokens. Raises as `call` does, BackendUnavailable where the server's tokens do not spell the text, BackendRefused
    for a system prompt that leaves no room."""
    prompt, most = item.prompt, item.max_prompt_tokens
    if most is None or len(prompt.system.encode()) + len(prompt.text.encode()) < most:
        return prompt
    vllm = endpoint.kind == BackendKind.VLLM
    tokenizer, ends = replace(endpoint, url=endpoint.url.removesuffix("/v1")), time.monotonic() + seconds

    def spans_of(text: str) -> list[tuple[int, int]]:
        body = {"model": item.model, **(_ask_vllm(text) if vllm else _ask_llama(text))}
        answer = call(tokenizer, "POST", "/tokenize", body, max(ends - time.monotonic(), LEAST_SECONDS))
        try:
            if not vllm:
                return _find_spans(text, [_bytes_of(one["piece"]) for one in answer["tokens"]])
            return _find_spans_in_vocabulary(text, answer["token_strs"])
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


def _ask_llama(text: str) -> Mapping[str, Any]:
    return {"content": text, "add_special": False, "parse_special": False, "with_pieces": True}


def _ask_vllm(text: str) -> Mapping[str, Any]:
    return {"prompt": text, "add_special_tokens": False, "return_token_strs": True}


def _find_spans_in_vocabulary(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Of tokens as they stand in the tokenizer's vocabulary: by a character for each byte, as GPT-2 wrote them, or else
    as SentencePiece does. Raises ValueError."""
    try:
        return _find_spans(text, [_read_byte_level(token) for token in tokens])
    except (KeyError, ValueError):
        return _find_spans(text, [_read_sentence_piece(token) for token in tokens])


def _byte_characters() -> dict[str, int]:
    """GPT-2's character of each byte: those that can be printed are themselves, the others follow from 256 on."""
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printed]
    return {chr(byte): byte for byte in printed} | {chr(256 + place): byte for place, byte in enumerate(others)}


BYTE_OF = _byte_characters()


def _read_byte_level(token: str) -> bytes:
    return bytes(BYTE_OF[character] for character in token)


def _read_sentence_piece(token: str) -> bytes:
    if byte := re.fullmatch("<0x([0-9A-F]{2})>", token):
        return bytes.fromhex(byte[1])
    return token.replace("\u2581", " ").encode()


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
