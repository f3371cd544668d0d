"""Writes an example of a value that fits a JSON schema: what the programs of the page *Connect* send. PURE.

It knows the keywords that set-ups of agents use. Whether an example fits, its caller checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from decisions.agents.actions import OFFERED, values_at
from decisions.agents.references import resolve

TEXT = "Book flights to Oslo"
ID = "example-1"
SHARE = 0.8
TYPED = frozenset({"type", "anyOf", "oneOf", "enum", "$ref"})
MAX_DEPTH = 2
"""Objects inside objects that have their optional parts, too: a schema may refer to itself."""
DEEPEST, MOST_VALUES = 20, 5_000
"""Bounds of one example: required parts may refer to themselves as well, and then nothing fits."""
MOST_ITEMS, LONGEST_TEXT = 20, 1_000


def write_example(schema: Mapping[str, Any], *, state: Any = None) -> Any:
    """A value with all its typed fields; without `state` that of a state, with it that of an action, which has its
    required fields and its confidence, and names what the state offers."""
    return _Writer(schema, state).write(schema, "")


@dataclass(slots=True)
class _Writer:
    root: Mapping[str, Any]
    state: Any
    written: int = 0
    depth: int = 0

    def write(self, schema: Any, name: str) -> Any:
        self.written += 1
        schema = resolve(schema, self.root)
        if not schema or self.written > MOST_VALUES or self.depth > DEEPEST:
            return TEXT
        if isinstance(source := schema.get(OFFERED), str):
            return next(iter(values_at(self.state or {}, source)), TEXT)
        for keyword in ("const", "default"):
            if schema.get(keyword) is not None:
                return schema[keyword]
        if schema.get("enum"):
            return next((value for value in schema["enum"] if value is not None), None)
        for keyword in ("anyOf", "oneOf", "allOf"):
            if isinstance(schema.get(keyword), list):
                resolved = (resolve(inner, self.root) for inner in schema[keyword])
                return self.write(next((inner for inner in resolved if inner.get("type") != "null"), {}), name)
        return self._write_typed(schema, name)

    def _write_typed(self, schema: Mapping[str, Any], name: str) -> Any:
        kinds = schema.get("type")
        kind = next((one for one in kinds if one != "null"), "null") if isinstance(kinds, list) else kinds
        if kind == "object" or (kind is None and "properties" in schema):
            properties = schema.get("properties", {})
            fields = [field for field, inner in properties.items() if self._is_wanted(field, inner, schema)]
            self.depth += 1
            values = {field: self.write(properties[field], field) for field in fields}
            self.depth -= 1
            return values
        if kind == "array":
            least = min(int(schema.get("minItems", 0)), MOST_ITEMS)
            count = least if self.depth > MAX_DEPTH else max(1, least)
            return [self.write(schema.get("items", {}), name) for _ in range(count)]
        if kind in ("number", "integer"):
            low, high = schema.get("minimum", 0), schema.get("maximum", 1)
            return SHARE if kind == "number" and low <= SHARE <= high else low
        if kind == "boolean":
            return True
        if kind == "null":
            return None
        text = ID if name == "id" or name.endswith(("_id", "Id")) else TEXT
        least = min(int(schema.get("minLength", 0)), LONGEST_TEXT)
        return text.ljust(least, ".")[: int(schema.get("maxLength", LONGEST_TEXT))]

    def _is_wanted(self, field: str, schema: Any, parent: Mapping[str, Any]) -> bool:
        if field in parent.get("required", ()):
            return True
        if self.state is not None:
            return field == "confidence"
        return self.depth <= MAX_DEPTH and isinstance(schema, Mapping) and bool(TYPED & schema.keys())
