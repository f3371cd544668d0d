"""References inside a JSON schema. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_REFERENCES = 20


def resolve(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A reference to a part of the root is that part; whatever cannot be told is anything."""
    for _ in range(MAX_REFERENCES):
        if not isinstance(schema, Mapping):
            return {}
        if "$ref" not in schema:
            return schema
        found: Any = root
        for step in str(schema["$ref"]).removeprefix("#").split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, Mapping) else None
        schema = found
    return {}
