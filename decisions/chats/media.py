"""Pictures, sounds and files that a chat holds as base64: the ledger keeps what they were, and not themselves. PURE.

A server gets the messages as the client sent them. In the state of the decision, base64 is replaced by the SHA-256 of
what it encodes, the number of its bytes, and its media type; what stands at an address of its own keeps that.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from typing import Any

DATA_URL = re.compile(r"data:(?P<type>[\w.+-]{1,127}+/[\w.+-]{1,127}+)?[^,]{0,200},", re.ASCII)
"""Possessive, with the lengths of RFC 6838: megabytes without a comma are looked at once."""
HELD_AT = {"image_url": "url", "input_audio": "data", "file": "file_data"}
"""By the type of a content part, where its field of the same name holds the base64."""


def without_media(messages: list[Any]) -> list[Any]:
    """The messages, with what stands for each picture, sound and file. What holds none is the same object."""
    return [_read_message(message) for message in messages]


def _read_message(message: Any) -> Any:
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(content, list):
        return message
    parts = [_read_part(part) for part in content]
    changed = any(one is not other for one, other in zip(parts, content, strict=True))
    return {**message, "content": parts} if changed else message


def _read_part(part: Any) -> Any:
    kind = part.get("type") if isinstance(part, Mapping) else None
    name = HELD_AT.get(kind) if isinstance(kind, str) else None
    held = part.get(kind) if name is not None else None
    if isinstance(held, str) and kind == "image_url":  # as some clients send it
        held = {"url": held}
    if name is None or not isinstance(held, Mapping) or not isinstance(text := held.get(name), str):
        return part
    found = DATA_URL.match(text)
    if found is None and name == "url":
        return part
    media_type = found["type"] if found is not None else None
    content = _decode(text[found.end() :] if found is not None else text)
    rest = {key: value for key, value in held.items() if key != name}
    told = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    return {**part, kind: rest | told | ({"media_type": media_type} if media_type else {})}


def _decode(text: str) -> bytes:
    """The text itself where it is no base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text.encode()
