"""Writes an example of a value that fits a JSON schema: what the programs of the page *Connect* send. PURE.

It knows the keywords that set-ups of agents use. Whether an example fits, its caller checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from decisions.agents.actions import OFFERED, values_at

TEXT = "Book flights to Oslo"
ID = "example-1"
SHARE = 0.8


def write_example(schema: Mapping[str, Any], *, state: Any = None) -> Any:
    """A value with all its typed fields; without `state` that of a state, with it that of an action, which has its
    required fields and its confidence, and names what the state offers."""
    return _write(schema, schema, "", state)


def _write(schema: Any, root: Mapping[str, Any], name: str, state: Any) -> Any:
    if not isinstance(schema, Mapping):
        return TEXT
    if isinstance(reference := schema.get("$ref"), str):
        return _write(_follow(root, reference), root, name, state)
    if isinstance(source := schema.get(OFFERED), str):
        return next(iter(values_at(state or {}, source)), TEXT)
    for keyword in ("const", "default"):
        if schema.get(keyword) is not None:
            return schema[keyword]
    if schema.get("enum"):
        return next((value for value in schema["enum"] if value is not None), None)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(keyword), list):
            chosen = next((inner for inner in schema[keyword] if not _is_null(inner)), None)
            return _write(chosen, root, name, state)
    return _write_typed(schema, root, name, state)


def _write_typed(schema: Mapping[str, Any], root: Mapping[str, Any], name: str, state: Any) -> Any:
    kinds = schema.get("type")
    kind = next((one for one in kinds if one != "null"), "null") if isinstance(kinds, list) else kinds
    if kind == "object" or (kind is None and "properties" in schema):
        properties = schema.get("properties", {})
        named = [field for field, inner in properties.items() if _is_wanted(field, inner, schema, state)]
        return {field: _write(properties[field], root, field, state) for field in named}
    if kind == "array":
        count = max(1, int(schema.get("minItems", 0)))
        return [_write(schema.get("items", {}), root, name, state) for _ in range(count)]
    if kind in ("number", "integer"):
        low, high = schema.get("minimum", 0), schema.get("maximum", 1)
        return SHARE if kind == "number" and low <= SHARE <= high else low
    if kind == "boolean":
        return True
    if kind == "null":
        return None
    text = ID if name == "id" or name.endswith(("_id", "Id")) else TEXT
    return text.ljust(int(schema.get("minLength", 0)), ".")[: int(schema.get("maxLength", len(text)))]


def _is_wanted(field: str, schema: Any, parent: Mapping[str, Any], state: Any) -> bool:
    if field in parent.get("required", ()):
        return True
    if state is not None:
        return field == "confidence"
    return isinstance(schema, Mapping) and bool({"type", "anyOf", "oneOf", "enum", "$ref"} & schema.keys())


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"


def _follow(root: Mapping[str, Any], reference: str) -> Any:
    node: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        node = node.get(part.replace("~1", "/").replace("~0", "~"), {}) if isinstance(node, Mapping) else {}
    return node
