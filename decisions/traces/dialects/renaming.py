"""Attributes under other names. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def rename(attributes: Mapping[str, Any], names: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """Those of `names` under the table's name, which the value that stands there already keeps; the others as they
    are."""
    renamed = {new: attributes[old] for old, new in names.items() if attributes.get(old) not in (None, "")}
    return renamed | {name: value for name, value in attributes.items() if name not in names} | more


def add(attributes: dict[str, Any], name: str, value: Any) -> None:
    """Where there is such a value, and none yet."""
    if value not in (None, "") and attributes.get(name) in (None, ""):
        attributes[name] = value
