"""Converts any value that a program records into JSON that the API takes, and makes ids.

This happens at once in the program's thread: later changes to the value do not change what was recorded, and the queue
knows its size in bytes.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Mapping, Set
from typing import Any

import msgspec

DEEPEST = 24  # The API takes 32 levels, of which a batch, an item and a step use some.
LONGEST_REPR = 2_000
_NOT_TEXT = re.compile("[\x00\ud800-\udfff]")
_INTEGERS = range(-(2**63), 2**63)


def uuid7() -> uuid.UUID:
    """A fresh id: milliseconds since 1970, 12 bits of the millisecond's fraction, 62 random bits (RFC 9562, 6.2).

    Random bits come from the operating system: a generator of the process would repeat itself after a fork.
    """
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    drawn = int.from_bytes(os.urandom(8), "big") >> 2
    return uuid.UUID(int=milliseconds << 80 | 7 << 76 | (rest << 12) // 1_000_000 << 64 | 2 << 62 | drawn)


def encode(value: Any) -> bytes:
    """JSON of `value`. Objects that JSON does not know become their `model_dump()`, their number, or their repr.

    What the API would refuse is altered: NUL characters and lone surrogates become U+FFFD, integers beyond 64 bits
    text, containers below `DEEPEST` levels their repr. NaN and infinities become null.
    """
    try:
        data = _encoder.encode(value)
        if b"\\u0000" not in data:
            return data
    except Exception:  # noqa: BLE001, S110 - a strange object's own methods may raise anything; the slow way knows how
        pass
    try:
        return _encoder.encode(_plain(value, 0))
    except Exception:  # noqa: BLE001 - the same, in a container of its own making
        return _encoder.encode(_repr(value))


def shorten(text: str, longest: int) -> str:
    """`text`, of more than `longest` characters the beginning, with an ellipsis for the rest."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def error_text(error: BaseException) -> str:
    """Its class and what it says."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - somebody else's __str__
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _repr(value: object) -> str:
    try:
        return shorten(_NOT_TEXT.sub("\ufffd", repr(value)), LONGEST_REPR)
    except Exception:  # noqa: BLE001 - somebody else's __repr__
        return f"<{type(value).__name__}>"


def _known(value: object) -> Any:
    """For msgspec: an object it does not know as one that it does."""
    dump = getattr(value, "model_dump", None)  # pydantic's
    if callable(dump) and isinstance(dumped := dump(), dict | list):
        return dumped
    if isinstance(value, BaseException):
        return error_text(value)
    if isinstance(value, Mapping):
        return dict(value)
    if getattr(value, "shape", None) == ():  # a number of numpy's or torch's
        number = value.item()  # type: ignore[attr-defined]
        if isinstance(number, bool | int | float | str):
            return number
    return _repr(value)


def _plain(value: Any, depth: int) -> Any:
    """Only what JSON has, within the API's limits. Slow, and never raises for anything but a lack of memory."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return int(value) if int(value) in _INTEGERS else str(int(value))
    if isinstance(value, str):
        return _NOT_TEXT.sub("\ufffd", value)
    if depth >= DEEPEST:
        return _repr(value)
    if isinstance(value, Mapping):
        return {_NOT_TEXT.sub("\ufffd", str(key)): _plain(inner, depth + 1) for key, inner in list(value.items())}
    if isinstance(value, list | tuple | Set):
        return [_plain(inner, depth + 1) for inner in list(value)]
    try:
        built = msgspec.to_builtins(value, enc_hook=_known, str_keys=True)
    except Exception:  # noqa: BLE001 - a strange object's own methods may raise anything
        return _repr(value)
    return _repr(value) if built is value else _plain(built, depth + 1)


_encoder = msgspec.json.Encoder(enc_hook=_known)
