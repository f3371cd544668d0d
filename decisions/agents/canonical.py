"""One text for equal JSON values: by it corrections are compared. PURE."""

from __future__ import annotations

import json
from typing import Any

EXACT = 2.0**53
"""Up to here a float holds every whole number."""


def canonical(value: Any) -> str:
    """Names sorted, no spaces, 1.0 as 1. Text and the order of a list stay as they are."""
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT:
        return int(value)
    return value
