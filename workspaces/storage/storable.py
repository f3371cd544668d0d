"""What jsonb can hold, and gives back as it was. PURE.

Bodies of requests are checked as bytes (`workspaces.http.parsing`); this is for what comes by other ways: spans, and
what models write.
"""

from __future__ import annotations

from typing import Any

import msgspec

MAX_DEPTH = 32
MAX_INTEGER = 2**63 - 1


def is_storable(value: Any, levels: int = MAX_DEPTH) -> bool:
    """May it be stored as jsonb and read back as it was? PostgreSQL knows no NUL, UTF-8 no half of a pair, and other
    languages' clients no whole number above 64 bits."""
    if isinstance(value, str):
        return "\x00" not in value and _is_unicode(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return -MAX_INTEGER - 1 <= value <= MAX_INTEGER
    if levels <= 0:
        return not isinstance(value, dict | list)
    if isinstance(value, dict):
        return all(is_storable(key) and is_storable(inner, levels - 1) for key, inner in value.items())
    return not isinstance(value, list) or all(is_storable(inner, levels - 1) for inner in value)


def read_json(text: str) -> Any:
    """JSON that nobody has checked yet; NaN and infinity are none. Raises ValueError."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise ValueError(f"{text.strip()[:80]!r} is not JSON") from error


def _is_unicode(text: str) -> bool:
    """Whether it has no lone surrogate; by one call, since a prompt has many letters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
