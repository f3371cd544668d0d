"""Structured actions as choices: which schemas can be enumerated, and which option an action is."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from decisions.agents.actions import check_action
from decisions.agents.choices import MOST, action_of, choices_of, option_of
from decisions.agents.kinds import KINDS, action_schema


def structured(schema: Any) -> Any:
    return SimpleNamespace(action_space="structured", options=None, action_schema=schema)


def of_kind(kind: str) -> Any:
    setup = KINDS[kind]
    return SimpleNamespace(action_space=setup.action_space, options=setup.options, action_schema=action_schema(setup))


def fields(*required: str, **properties: Any) -> Any:
    return structured({"type": "object", "properties": properties, "required": list(required)})


class TestOptions:
    def test_the_filer_chooses_among_48(self) -> None:
        version = of_kind("FILER")
        options = choices_of(version, {}).options
        assert options is not None and len(options) == len(set(options)) == 48
        assert options[0] == '{"priority":"HIGH","status":"COMPENDIUM","swimlane":"EXPEDITE"}'
        for option in options:
            assert (
                check_action("structured", action_of(version, option), options=None, schema=version.action_schema) == []
            )

    def test_ids_that_the_state_offers_are_its_options(self) -> None:
        version = of_kind("PRIORITIZER")
        options = choices_of(version, {"todoItems": [{"id": "b"}, {"id": "a"}]}).options
        assert options == ('{"recommended_item_id":"b"}', '{"recommended_item_id":"a"}')
        assert choices_of(version, None).options == ()  # a choice, in a state that nobody named
        bare = choices_of(version, {"todoItems": []})
        assert bare.options is None and "todoItems[].id" in bare.reason
        many = choices_of(version, {"todoItems": [{"id": str(n)} for n in range(MOST + 1)]})
        assert many.options is None and "more than 512" in many.reason

    @pytest.mark.parametrize(
        ("schema", "options"),
        [
            (fields("a", a={"type": "boolean"}), ['{"a":true}', '{"a":false}']),
            (fields("a", a={"type": "integer", "minimum": 1, "exclusiveMaximum": 3}), ['{"a":1}', '{"a":2}']),
            (fields("a", a={"const": 1.0}), ['{"a":1}']),
            (fields(a={"type": ["boolean", "null"]}), ['{"a":true}', '{"a":false}']),
            (fields("a", a={"anyOf": [{"enum": ["x"]}, {"type": "null"}]}), ['{"a":"x"}', '{"a":null}']),
            (fields("a", a=fields("b", b={"enum": ["x", "y"]}).action_schema), ['{"a":{"b":"x"}}', '{"a":{"b":"y"}}']),
            (
                fields("a", a={"enum": ["x", "y"]}, note={"type": "string", "x-beside": True}, reasoning={}),
                ['{"a":"x"}', '{"a":"y"}'],
            ),
            (structured({"enum": [{"b": 1, "a": 2}, "c"]}), ['{"a":2,"b":1}', '"c"']),
        ],
    )
    def test_what_can_be_enumerated(self, schema: Any, options: list[str]) -> None:
        assert choices_of(schema, {}).options == tuple(options)

    @pytest.mark.parametrize(
        ("version", "reason"),
        [
            (of_kind("RETRIEVER"), "generatedContent"),
            (of_kind("STORER"), "location"),
            (of_kind("LIBRARIAN"), "findings"),
            (fields("a", a={"type": "number"}), "a that is number"),
            (fields("a", a={"type": "integer", "minimum": 0}), "a that is integer"),
            (fields(a={"enum": list(range(23))}, b={"enum": list(range(23))}), "529 combinations"),
            (fields("confidence", a={"enum": [1]}, confidence={"type": "number"}), "confidence that is required"),
            (fields(), "no fields"),
            (structured({}), "cannot be enumerated"),
            (SimpleNamespace(action_space="text", options=None, action_schema=None), "free text"),
            (SimpleNamespace(action_space="ranking", options=["a"], action_schema=None), "order"),
        ],
    )
    def test_what_cannot_says_why(self, version: Any, reason: str) -> None:
        found = choices_of(version, {})
        assert found.options is None and reason in found.reason

    def test_a_rule_of_the_schema_forbids_combinations(self) -> None:
        rule = {"if": {"properties": {"a": {"const": 1}}}, "then": {"properties": {"b": {"const": 1}}}}
        version = fields("a", "b", a={"enum": [1, 2]}, b={"enum": [1, 2]})
        version.action_schema |= rule
        assert choices_of(version, {}).options == ('{"a":1,"b":1}', '{"a":2,"b":1}', '{"a":2,"b":2}')

    def test_a_choice_has_those_given_or_its_own(self) -> None:
        version = of_kind("GUARDRAIL")
        assert choices_of(version, {}).options == ("ALLOW", "BLOCK")
        free = SimpleNamespace(action_space="choice", options=None, action_schema=None)
        assert choices_of(free, {}, ["x", "y"]).options == ("x", "y")
        assert choices_of(free, {}).options is None and choices_of(free, None).options == ()


class TestActions:
    def test_an_action_is_an_option_without_what_is_said_beside_it(self) -> None:
        version = of_kind("FILER")
        action = {"swimlane": "HOME", "status": "TODO", "priority": "LOW", "labels": ["a"], "confidence": 0.4}
        option = option_of(version, action)
        assert option == '{"priority":"LOW","status":"TODO","swimlane":"HOME"}'
        assert option in (choices_of(version, {}).options or ())
        assert json.loads(option) == action_of(version, option)

    def test_a_field_left_open_is_no_option(self) -> None:
        version = of_kind("FILER")
        options = choices_of(version, {}).options or ()
        for action in ({"status": "TRASH"}, {"status": "TRASH", "swimlane": None, "priority": "LOW"}):
            assert option_of(version, action) not in options
        assert option_of(version, "TRASH") is None
