"""Examples of values from schemas: they fit, and they end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from decisions.agents.actions import Schema, check_schema
from decisions.agents.example_values import write_example

TREE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        **{f"branch{number}": {"type": "array", "items": {"$ref": "#"}} for number in range(10)},
    },
    "required": ["name"],
}


@pytest.mark.parametrize(
    "schema",
    [
        TREE,
        {"type": "array", "minItems": 3, "items": {"enum": [None, "a"]}},
        {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/n"}], "$defs": {"n": {"type": "integer", "minimum": 7}}},
        {"type": "string", "minLength": 40},
        {"type": "string", "maxLength": 3},
        {"type": ["null", "number"], "minimum": 0, "maximum": 1},
        {"properties": {"ok": {"type": "boolean"}, "at": {"const": 4}}},
        {},
    ],
)
def test_an_example_fits_its_schema(schema: dict[str, Any]) -> None:
    assert check_schema(schema) is None
    assert Schema(schema, "state").faults(write_example(schema)) == []


@pytest.mark.parametrize(
    "schema",
    [
        TREE,
        {"type": "object", "properties": {"self": {"$ref": "#"}}, "required": ["self"]},
        {"type": "array", "minItems": 10**9, "items": {"type": "string", "minLength": 10**9}},
        {"$ref": "#/nowhere"},
        {"$ref": "#"},
    ],
)
def test_an_example_of_any_schema_is_small(schema: dict[str, Any]) -> None:
    assert len(json.dumps(write_example(schema))) < 50_000
