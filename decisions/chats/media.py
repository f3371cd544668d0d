"""Pictures, sounds and files that a chat holds as base64: the ledger keeps what they were, and not themselves. PURE.

A server gets the messages as the client sent them. In the state of the decision, base64 is replaced by the SHA-256 of
what it encodes, the number of its bytes, and its media type; what stands at an address of its own keeps that.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

DATA_URL = re.compile(r"data:(?P<type>[\w.+-]{1,127}+/[\w.+-]{1,127}+)?[^,]{0,200},", re.ASCII)
"""Possessive, with the lengths of RFC 6838: megabytes without a comma are looked at once."""
WORDS = frozenset({"text", "input_text", "output_text", "refusal"})
"""Types of the parts that hold none."""
BARE = frozenset({"data", "file_data"})
"""Fields that hold base64 without `data:` before it: OpenAI's sounds and files, and the sources of other protocols."""
HELD_AT = BARE | {"url", "image_url", "video_url", "audio_url"}
ALWAYS = frozenset({"input_audio", "file"})
"""Types whose BARE fields hold nothing else."""
SHORT = 256
"""Characters below which a BARE field of another part may be something else."""
BESIDE = ("audio", "images")
"""Fields of an answer that hold what it shows and says, beside its content."""


PICTURES = frozenset({"image_url", "input_image", "image"})
FILES = frozenset({"file", "input_file", "document"})
AT_ADDRESSES = PICTURES | FILES | {"audio_url", "video_url", "video"}
"""Types of the parts that may name their content by an address or an id."""
FILE_BYTES, OTHER_BYTES = 4, 100
"""Of a token, in files and in sounds and videos: a file may be read as text."""


def estimate_media_tokens(messages: list[Any], *, picture: int) -> int:
    """Returns how many tokens a server may count for what `without_media` describes, and for pictures at addresses.
    `picture`: tokens of a picture."""
    return sum(
        _count_part(part, picture)
        for message in messages
        if isinstance(message, Mapping)
        for held in (message.get("content"), *(message.get(name) for name in BESIDE))
        for part in (held if isinstance(held, list) else [held])
        if isinstance(part, Mapping)
    )


def _count_part(part: Mapping[str, Any], picture: int) -> int:
    kind = part.get("type")
    described = list(_described(part))
    if not described:
        return picture if isinstance(kind, str) and kind in AT_ADDRESSES else 0
    each = FILE_BYTES if kind in FILES else OTHER_BYTES
    return sum(
        picture if media.startswith("image/") or (not media and kind in PICTURES) else -(-size // each)
        for size, media in described
    )


def _described(held: Any) -> Iterator[tuple[int, str]]:
    """Gives the bytes and the media type, "" where it is not known, of each content that a part describes."""
    if isinstance(held, list):
        for one in held:
            yield from _described(one)
    elif isinstance(held, Mapping):
        size, media = held.get("bytes"), held.get("media_type")
        if isinstance(held.get("sha256"), str) and isinstance(size, int):
            yield max(0, size), media if isinstance(media, str) else ""
            return
        for one in held.values():
            yield from _described(one)


def without_media(messages: list[Any]) -> list[Any]:
    """The messages, with what stands for each picture, sound and file. What holds none is the same object."""
    return [_read_message(message) for message in messages]


def _read_message(message: Any) -> Any:
    if not isinstance(message, Mapping):
        return message
    read = {name: _without(message[name], always=True) for name in BESIDE if name in message}
    if isinstance(content := message.get("content"), list):
        parts = [_read_part(part) for part in content]
        read["content"] = parts if any(one is not other for one, other in zip(parts, content, strict=True)) else content
    return {**message, **read} if any(value is not message[name] for name, value in read.items()) else message


def _read_part(part: Any) -> Any:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str) or kind in WORDS:
        return part
    return _without(part, always=kind in ALWAYS, is_part=True)


def _without(held: Any, *, always: bool, is_part: bool = False) -> Any:
    """Replaces base64 at any depth by a description of the content: in place of its field in HELD_AT, beside the other
    fields, or as the value of any other field. Returns the same object where there is none."""
    if isinstance(held, list):
        items = [_describe("", one, always) or _without(one, always=always) for one in held]
        return held if all(one is other for one, other in zip(items, held, strict=True)) else items
    if not isinstance(held, Mapping):
        return held
    kept: dict[str, Any] = {}
    known: dict[str, Any] = {}
    for name, value in held.items():
        found = _describe(name, value, always)
        if found and name in HELD_AT and not is_part and not known:
            known = found
        else:
            kept[name] = found or _without(value, always=always)
    return {**kept, **known} if known or any(kept[name] is not held[name] for name in kept) else held


def _describe(name: str, text: Any, always: bool) -> dict[str, Any] | None:
    """Describes the content that a field holds; None where it holds none."""
    if not isinstance(text, str):
        return None
    found = DATA_URL.match(text)
    if found is not None and name not in HELD_AT and not found[0].endswith(";base64,"):
        return None
    if found is None and (name not in BARE or not (always or _is_base64(text))):
        return None
    content = _decode(text[found.end() :] if found is not None else text)
    known = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    return known | ({"media_type": found["type"]} if found is not None and found["type"] else {})


def _is_base64(text: str) -> bool:
    if len(text) < SHORT:
        return False
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _decode(text: str) -> bytes:
    """The text itself where it is no base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text.encode()
