"""Schemas that would hold a process are refused when they are stored, and no value makes a check raise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decisions.agents.actions import Schema, check_schema
from decisions.agents.explaining import Allowance


def references(*names: str) -> list[dict[str, str]]:
    return [{"$ref": f"#/$defs/{name}"} for name in names]


def doubling(depth: int, *, own: bool = False) -> dict:
    """Definitions that each name the next one twice."""
    defs = {f"d{at}": {"allOf": references(f"d{at + 1}", f"d{at + 1}")} for at in range(depth)}
    whole = {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{depth}": {"type": "string"}}}
    return {"properties": {"a": {"$id": "https://example.org/a", **whole}}} if own else whole


def anchored(depth: int) -> dict:
    defs = {f"d{at}": {"$anchor": f"d{at}", "oneOf": [{"$ref": f"#d{at + 1}"}] * 2} for at in range(depth)}
    return {"$ref": "#d0", "$defs": {**defs, "last": {"$anchor": f"d{depth}", "type": "string"}}}


def each_of(names: str) -> dict:
    """Definitions that each name all others."""
    defs = {name: {"allOf": references(*names.replace(name, ""))} for name in names}
    return {"$ref": f"#/$defs/{names[0]}", "$defs": defs}


def through_properties(depth: int) -> dict:
    def twice(at: int) -> dict:
        return {"allOf": [{"properties": {"a": one}} for one in references(f"d{at + 1}") * 2]}

    defs = {f"d{at}": twice(at) for at in range(depth)}
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{depth}": {"type": "string"}}}


@pytest.mark.parametrize("schema", [doubling(30), doubling(30, own=True), anchored(30), through_properties(30)])
def test_references_that_multiply_are_refused(schema):
    assert "its references multiply" in (check_schema(schema) or "")


@pytest.mark.parametrize("schema", [doubling(8), doubling(8, own=True), anchored(8), through_properties(8)])
def test_a_few_do_not(schema):
    assert check_schema(schema) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"not": {"$ref": "#"}},
        {"$dynamicAnchor": "a", "anyOf": [{"$dynamicRef": "#a"}]},
        each_of("abcdefgh"),
    ],
)
def test_a_schema_that_never_goes_deeper_is_refused(schema):
    assert "refers to itself" in (check_schema(schema) or "")


def test_trees_and_grammars_may_refer_to_themselves():
    node = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "rest": {"items": {"$ref": "#"}}}}
    assert check_schema(node) is None
    kinds = {f"k{at}": {"properties": {"of": {"items": {"$ref": "#"}}}, "required": [f"x{at}"]} for at in range(40)}
    grammar = {"oneOf": references(*kinds), "$defs": kinds}
    assert check_schema(grammar) is None
    assert Schema(grammar, "action").faults({"x1": 1, "of": [{"x2": 1, "of": []}]}) == []


names = st.sampled_from(["a", "b", "a/b", "~", "", "é"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)
schemas = st.recursive(
    st.booleans()
    | st.sampled_from(
        [
            *({"$ref": place} for place in ("#", "#/$defs/a", "#/properties/a", "#x")),
            *({"type": "string", "maxLength": 1}, {"format": "date"}, {"pattern": "^(a+)+$"}, {"required": ["a", "b"]}),
            *({"$dynamicRef": "#x"}, {"enum": [1, None, {"a": []}]}, {"const": {"a": 1.5}}, {"multipleOf": 1e-300}),
            *(
                {"uniqueItems": True},
                {"minProperties": 2},
                {"dependentRequired": {"a": ["b"]}},
                {"$dynamicAnchor": "x"},
            ),
        ]
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            **{name: st.dictionaries(names, inner, max_size=2) for name in ("properties", "$defs", "dependentSchemas")},
            **{name: st.lists(inner, min_size=1, max_size=2) for name in ("allOf", "anyOf", "oneOf", "prefixItems")},
            **dict.fromkeys(("items", "contains", "not", "if", "then", "else", "propertyNames"), inner),
            **dict.fromkeys(("additionalProperties", "unevaluatedProperties", "unevaluatedItems"), inner),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "/", "."]), inner, max_size=2),
        },
    ),
    max_leaves=8,
)


@given(schemas, values)
def test_no_value_makes_a_check_raise(schema, value):
    if isinstance(schema, dict) and check_schema(schema) is None:
        assert (Schema(schema, "action").faults(value) == []) == Schema(schema, "action").fits(value)


def test_half_of_a_character_is_a_fault():
    for value in ("\ud800", {"\ud800": 1}, ["\ud800"]):
        [fault] = Schema({"const": 1}, "action").faults(value)
        assert fault.field == "action" and "half of a character" in fault.reason


def test_the_known_fields_of_a_fault_have_a_bound():
    schema = {"items": {"additionalProperties": False, "properties": {f"field {at}": True for at in range(1_000)}}}
    faults = Schema(schema, "action").faults([{"other": 1}] * 3)
    assert [len(fault.expected) for fault in faults] == [300] * 3


ALTERNATIVES = {"oneOf": [{"type": "string"}] * 500}
"""Each one's error would hold a copy of the value."""


@pytest.fixture
def full_allowance(monkeypatch):
    monkeypatch.setattr("decisions.agents.actions._ALLOWANCE", Allowance())


@pytest.mark.parametrize(
    "schema",
    [
        ALTERNATIVES,
        {"items": ALTERNATIVES},
        {"items": {"type": "string"}},
        {"items": {"enum": list(map(str, range(50_000)))}},
        {"allOf": [{"items": {"type": "string"}}] * 50},
    ],
)
def test_what_is_wrong_with_a_large_value_is_not_described(schema, full_allowance, monkeypatch):
    [fault] = Schema(schema, "action").faults([1] * 150_000)
    assert fault.field == "action" and ("to say where" in fault.reason or "too large" in fault.reason)


def test_a_process_describes_so_much_in_a_second(full_allowance, monkeypatch):
    monkeypatch.setattr("decisions.agents.explaining.time.monotonic", lambda: 1.0)
    schema = Schema(ALTERNATIVES, "action")
    reasons = [schema.faults([1] * 60)[0].reason for _ in range(5)]
    assert ["to say where" in reason for reason in reasons] == [False, False, False, True, True]


def test_a_value_that_many_alternatives_search_is_refused():
    schema = Schema({"anyOf": [{"contains": {"const": str(at)}} for at in range(5_000)]}, "state")
    [fault] = schema.faults([1] * 100_000)
    assert "too large for a schema that checks each value" in fault.reason and not schema.fits([1] * 100_000)
    assert schema.faults(["7"]) == []
