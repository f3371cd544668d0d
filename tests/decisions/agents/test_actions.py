"""Action spaces: what an agent may answer, and what is wrong with an answer."""

import pytest

from decisions.agents.actions import check_action, check_schema, make_space


class TestActions:
    @pytest.mark.parametrize(
        ("kind", "action", "fields"),
        [
            ("choice", "a", []),
            ("choice", "z", ["action"]),
            ("choice", ["a"], ["action"]),
            ("choice", None, ["action"]),
            ("ranking", ["b", "a"], []),
            ("ranking", [], []),
            ("ranking", ["a", "z", 3], ["action[1]", "action[2]"]),
            ("ranking", ["a", "a"], ["action"]),
            ("ranking", "a", ["action"]),
            ("text", "anything", []),
            ("text", 3, ["action"]),
            ("tool_calls", [{"name": "a", "arguments": {}}], []),
            ("tool_calls", [{"name": "f", "arguments": {}}], ["action[0].name"]),
            (
                "tool_calls",
                [{"name": "a"}, 3, {"name": 1, "arguments": {}}],
                ["action[0].arguments", "action[1]", "action[2].name"],
            ),
            ("tool_calls", {}, ["action"]),
            ("tool_calls", "anything", []),
            ("tool_calls", [{"name": "a", "arguments": {}, "id": "call_1"}], []),
            ("tool_calls", [{"name": "a", "arguments": {}, "id": 7}], ["action[0].id"]),
            ("text", [{"name": "a", "arguments": {}}], []),
            ("text", [{"name": "f", "arguments": {}}, 3], ["action[0].name", "action[1]"]),
        ],
    )
    def test_each_space_names_what_does_not_fit(self, kind, action, fields):
        faults = check_action(kind, action, options=["a", "b"], schema=None)
        assert [fault.field for fault in faults] == fields

    @pytest.mark.parametrize("kind", ["choice", "ranking"])
    def test_a_choice_needs_options(self, kind):
        assert [f.field for f in check_action(kind, "a", options=None, schema=None)] == ["options"]

    def test_a_structured_action_is_checked_by_its_schema(self):
        schema = {"type": "object", "properties": {"n": {"type": "array", "items": {"$ref": "#/$defs/i"}}},
                  "required": ["n"], "$defs": {"i": {"type": "integer"}}}  # fmt: skip
        assert check_schema(schema) is None
        assert check_action("structured", {"n": [1, 2]}, options=None, schema=schema) == []
        faults = check_action("structured", {"n": [1, "x"]}, options=None, schema=schema)
        assert [fault.field for fault in faults] == ["action.n[1]"]
        faults = check_action("structured", {}, options=None, schema=schema)
        assert [(fault.field, fault.reason) for fault in faults] == [("action.n", "is missing")]

    def test_a_field_that_the_schema_does_not_know_is_named(self):
        schema = {"type": "object", "properties": {"n": {}}, "additionalProperties": False}
        faults = check_action("structured", {"n": 1, "m": 2, "k": 3}, options=None, schema=schema)
        assert [fault.field for fault in faults] == ["action.k", "action.m"]

    @pytest.mark.parametrize("wrap", [lambda inner: inner, lambda inner: {"anyOf": [inner, {"type": "null"}]}])
    def test_a_value_that_the_state_did_not_offer_is_refused_with_its_place(self, wrap):
        picked = {"type": "string", "x-offered": "items[].id"}
        nested = {"type": "array", "items": {"type": "object", "properties": {"item": wrap(picked)}}}
        schema = {"type": "object", "properties": {"best": wrap(picked), "others": nested}}
        assert check_schema(schema) is None
        state = {"items": [{"id": "a"}, {"id": "b"}, {"title": "none"}, 3]}

        def places(action, state=state):
            faults = check_action("structured", action, options=None, schema=schema, state=state)
            return [fault.field for fault in faults]

        assert places({"best": "a", "others": [{"item": "b"}, {}]}) == []
        assert places({"best": "z", "others": [{"item": "b"}, {"item": "y"}]}) == [
            "action.best",
            "action.others[1].item",
        ]
        assert places({"best": "a"}, {}) == ["action.best"]
        assert places({"others": []}, {}) == []

    @pytest.mark.parametrize("source", ["", "a..b", 3, "[]"])
    def test_an_offer_that_names_no_place_in_the_state_is_refused(self, source):
        assert check_schema({"properties": {"a": {"x-offered": source}}})

    def test_a_space_checks_the_state_as_well(self):
        space = make_space("choice", None, {"type": "object", "required": ["item"]})
        assert space.faults("a", options=["a", "b"], state={"item": 1}) == []
        assert [fault.field for fault in space.faults("z", options=["a", "b"], state={})] == ["state.item", "action"]

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "nonsense"},
            {"$ref": "http://127.0.0.1:1/schema"},
            {"properties": {"a": {"items": [{"$ref": "file:///etc/passwd"}]}}},
            {"properties": {"a": {"$dynamicRef": "other.json"}}},
        ],
    )
    def test_a_schema_that_is_wrong_or_leads_elsewhere_is_refused(self, schema):
        assert check_schema(schema)

    def test_a_schema_from_before_that_leads_elsewhere_makes_the_server_fetch_nothing(self):
        faults = check_action("structured", {}, options=None, schema={"$ref": "http://127.0.0.1:1/schema"})
        assert [fault.field for fault in faults] == ["action"]

    def test_an_unknown_space_is_a_fault_of_ours(self):
        with pytest.raises(ValueError, match="unknown action space"):
            check_action("dance", "a", options=None, schema=None)


class TestPatterns:
    """In Python's own `re` each of these would hold a process for years."""

    SLOW = {"type": "object", "properties": {"code": {"type": "string", "pattern": "^(a+)+$"}}}
    TEXT = "a" * 50_000 + "!"

    def test_a_pattern_takes_no_longer_than_its_text_is_long(self):
        assert check_schema(self.SLOW) is None
        [fault] = check_action("structured", {"code": self.TEXT}, options=None, schema=self.SLOW)
        assert (fault.field, fault.expected) == ("action.code", "text that matches ^(a+)+$")
        assert len(fault.reason) <= 300
        assert check_action("structured", {"code": "aaa"}, options=None, schema=self.SLOW) == []

    @pytest.mark.parametrize("pattern", [r"(?=a)b", r"(a)\1", "(", "(?<!a)b", "(a{1000}){1000}"])
    def test_one_that_could_take_longer_is_refused_in_a_new_schema(self, pattern):
        assert repr(pattern) in check_schema({"properties": {"code": {"pattern": pattern}}})

    def test_one_of_before_still_matches_and_ends_where_it_would_not(self):
        schema = {"properties": {"code": {"pattern": "^(?=a)(a+)+$"}}}
        assert check_action("structured", {"code": "aaa"}, options=None, schema=schema) == []
        for code in ("bbb", self.TEXT):
            [fault] = check_action("structured", {"code": code}, options=None, schema=schema)
            assert fault.field == "action.code"
