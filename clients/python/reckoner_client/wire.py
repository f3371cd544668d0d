"""Anything that a host may hand over, as JSON that the API takes.

Done at once in the host's thread: what the host changes afterwards does not change what was recorded, and the queue
knows its size in bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import Any

import msgspec

__all__ = ["DEEPEST", "encode", "shorten", "shown"]

# The API takes 32 levels, of which a batch, an item and a step use some.
DEEPEST = 24
LONGEST_SHOWN = 2_000
_NOT_TEXT = re.compile("[\x00\ud800-\udfff]")
_INTEGERS = range(-(2**63), 2**63)


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
        return _encoder.encode(shown(value))


def shorten(text: str, longest: int) -> str:
    """`text`, of more than `longest` characters the beginning, with an ellipsis for the rest."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def shown(value: object) -> str:
    """Its repr, at most `LONGEST_SHOWN` characters; the name of its class when that fails."""
    try:
        return shorten(_text(repr(value)), LONGEST_SHOWN)
    except Exception:  # noqa: BLE001 - somebody else's __repr__
        return f"<{type(value).__name__}>"


def _text(text: str) -> str:
    return _NOT_TEXT.sub("\ufffd", text)


def _known(value: object) -> Any:
    """For msgspec: an object it does not know as one that it does."""
    dump = getattr(value, "model_dump", None)  # pydantic's
    if callable(dump):
        dumped = dump()
        if isinstance(dumped, dict | list):
            return dumped
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, Mapping):
        return dict(value)
    if getattr(value, "shape", None) == ():  # a number of numpy's or torch's
        number = value.item()  # type: ignore[attr-defined]
        if isinstance(number, bool | int | float | str):
            return number
    return shown(value)


def _plain(value: Any, depth: int) -> Any:
    """Only what JSON has, within the API's limits. Slow, and never raises for anything but a lack of memory."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value) if int(value) in _INTEGERS else str(int(value))
    if isinstance(value, str):
        return _text(value)
    if depth >= DEEPEST:
        return shown(value)
    if isinstance(value, Mapping):
        return {_text(str(key)): _plain(inner, depth + 1) for key, inner in list(value.items())}
    if isinstance(value, list | tuple | Set):
        return [_plain(inner, depth + 1) for inner in list(value)]
    try:
        built = msgspec.to_builtins(value, enc_hook=_known, str_keys=True)
    except Exception:  # noqa: BLE001 - a strange object's own methods may raise anything
        return shown(value)
    return shown(value) if built is value else _plain(built, depth + 1)


_encoder = msgspec.json.Encoder(enc_hook=_known)
