"""What a head knows of an option: its parts, which share weights between options, and its name, which speaks for
options that no row had. No torch."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_SEPARATORS = re.compile(r"[_\-./]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def parts_of(option: str) -> tuple[str, ...]:
    """The option as a whole, and each field with its value of one that is a JSON object.

    A structured action's score is the sum over its parts: fields are learnt from every option that shares them, and
    the whole says what fields do not say alone.
    """
    fields = _read_fields(option)
    return (option, *(json.dumps({name: value}, sort_keys=True) for name, value in fields.items()))


def name_of(option: str) -> str:
    """The option in words, for an encoder: `book_flight` → "book flight"; of a structured action its values."""
    fields = _read_fields(option)
    if fields:
        return ", ".join(f"{_in_words(name)}: {_in_words(str(value))}" for name, value in fields.items())
    return _in_words(option)


def _read_fields(option: str) -> dict[str, object]:
    if not option.startswith("{"):
        return {}
    try:
        read = json.loads(option)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _in_words(text: str) -> str:
    return _CAMEL.sub(" ", _SEPARATORS.sub(" ", text)).strip().lower() or text


def columns_of(options: Sequence[str]) -> tuple[str, ...]:
    """Every part of these options once, in a fixed order."""
    return tuple(sorted({part for option in options for part in parts_of(option)}))
