"""Exploration, prompts, actions and reward components: plain values in, plain values out."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decisions.agents.actions import check_action, check_schema, make_space
from decisions.agents.prompts import PromptError, render_prompt, template_fields
from decisions.gateway.exploration import acting_policy, draw_action, model_probabilities
from decisions.rewards.components import COMPONENTS, ComponentError, Observed, normalise, total

PROBABILITIES = st.lists(st.floats(1e-6, 1), min_size=1, max_size=8)


class TestExploration:
    @given(PROBABILITIES, st.floats(0.05, 20), st.floats(0, 1))
    def test_a_policy_sums_to_one_and_leaves_every_option_its_share(self, p, temperature, epsilon):
        policy = acting_policy(p, temperature=temperature, epsilon=epsilon)
        assert math.fsum(policy) == pytest.approx(1)
        assert all(share >= epsilon / len(p) * (1 - 1e-12) for share in policy)
        # The order of preference stays.
        for (a, pa), (b, pb) in itertools.combinations(zip(p, policy, strict=True), 2):
            assert (a - b) * (pa - pb) >= 0 or pa == pytest.approx(pb)

    @given(PROBABILITIES)
    def test_temperature_one_and_no_epsilon_is_the_model_itself(self, p):
        assert acting_policy(p, temperature=1, epsilon=0) == pytest.approx([x / math.fsum(p) for x in p])

    def test_by_hand(self):
        assert acting_policy([0.8, 0.2], temperature=0.5, epsilon=0.1) == pytest.approx(
            [0.9 * 0.64 / 0.68 + 0.05, 0.9 * 0.04 / 0.68 + 0.05]
        )
        assert acting_policy([1.0, 0.0], temperature=2, epsilon=0.5) == (0.75, 0.25)
        assert acting_policy([0.9, 0.1], temperature=1e-3, epsilon=0) == (1.0, pytest.approx(0, abs=1e-300))

    @pytest.mark.parametrize(
        ("p", "temperature", "epsilon"),
        [
            ([], 1, 0),
            ([0.0, 0.0], 1, 0),
            ([0.5, -0.1], 1, 0),
            ([0.5, float("nan")], 1, 0),
            ([0.5, float("inf")], 1, 0),
            ([0.5, 0.5], 0, 0),
            ([0.5, 0.5], 1, 1.1),
            ([0.5, 0.5], 1, -0.1),
        ],
    )
    def test_a_policy_that_was_not_meant_does_not_act(self, p, temperature, epsilon):
        with pytest.raises(ValueError, match=r".+"):
            acting_policy(p, temperature=temperature, epsilon=epsilon)

    @given(PROBABILITIES, st.floats(0.2, 3), st.floats(0, 0.9))
    def test_what_the_model_thought_comes_back_from_how_it_acted(self, p, temperature, epsilon):
        policy = acting_policy(p, temperature=temperature, epsilon=epsilon)
        found = model_probabilities(policy, temperature=temperature, epsilon=epsilon)
        assert found == pytest.approx([x / math.fsum(p) for x in p], abs=1e-3)

    def test_a_uniform_policy_hides_what_the_model_thought(self):
        assert model_probabilities([0.5, 0.5], temperature=1, epsilon=1) is None
        with pytest.raises(ValueError, match="temperature 0"):
            model_probabilities([0.5, 0.5], temperature=0, epsilon=0)

    def test_the_propensity_is_the_probability_of_what_was_drawn(self):
        policy, rng = (0.2, 0.5, 0.3), random.Random(0)
        draws = [draw_action(policy, rng) for _ in range(20_000)]
        assert all(draw.propensity == policy[draw.index] for draw in draws)
        for index, share in enumerate(policy):
            found = sum(draw.index == index for draw in draws) / len(draws)
            assert found == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / len(draws)))

    def test_rounding_never_gives_a_propensity_above_one(self):
        assert draw_action((1.0000000000000002,), random.Random(0)).propensity == 1.0


class TestPrompts:
    def test_fields_are_filled_by_their_path(self):
        state = {"title": "Bill", "item": {"tags": ["a", {"x": 1}], "n": 3}, "ok": True, "none": None}
        template = "{{ title }}|{{item.n}}|{{ item.tags.0 }}|{{ item.tags.1.x }}|{{ item.tags }}|{{ ok }}|{{ none }}"
        assert render_prompt(template, state) == 'Bill|3|a|1|["a", {"x": 1}]|true|null'

    def test_options_are_listed_unless_the_state_has_its_own(self):
        assert render_prompt("{{ options }}", {}, ["a", "b"]) == "a, b"
        assert render_prompt("{{ options }}", {"options": "mine"}, ["a", "b"]) == "mine"

    @given(st.text(), st.text())
    def test_stored_text_is_data(self, text, other):
        rendered = render_prompt("[{{ a }}]", {"a": text + "{{ b }}{% x %}", "b": other})
        assert rendered == f"[{text}{{{{ b }}}}{{% x %}}]"

    @pytest.mark.parametrize("path", ["b", "a.b", "list.3", "list.x", "a.0", "text.0"])
    def test_a_missing_field_is_named(self, path):
        with pytest.raises(PromptError) as missing:
            render_prompt("{{ " + path + " }}", {"a": {}, "list": [1], "text": "abc"})
        assert missing.value.field == f"state.{path}"

    def test_fields_are_found_once_each_in_order(self):
        assert template_fields("{{ b }} {{a.x}} {{ b }}") == ["b", "a.x"]

    @pytest.mark.parametrize(
        "template", ["{{ a", "a }}", "{{ }}", "{{ a b }}", "{{ a|upper }}", "{{ a() }}", "{{ 1a }}"]
    )
    def test_what_is_no_field_is_refused(self, template):
        with pytest.raises(ValueError, match="a field is written"):
            template_fields(template)


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
            ("tool_calls", [{"name": "a"}, 3, {"name": 1, "arguments": {}}], ["action[0]", "action[1]", "action[2]"]),
            ("tool_calls", {}, ["action"]),
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


class TestComponents:
    @pytest.mark.parametrize(
        ("name", "observed", "value"),
        [
            ("verdict", Observed(), None),
            ("verdict", Observed(verdict="confirmed"), 1.0),
            ("verdict", Observed(verdict="corrected"), -0.5),
            ("verdict", Observed(verdict="overridden"), -0.8),
            ("verdict", Observed(verdict="ignored"), 0.0),
            ("calibration", Observed(confidence=0.7), None),
            ("calibration", Observed(verdict="ignored"), None),
            ("calibration", Observed(verdict="confirmed", confidence=0.7), pytest.approx(-0.3)),
            ("calibration", Observed(verdict="corrected", confidence=0.7), pytest.approx(-0.7)),
            ("matches_answer", Observed(action="a", answer="a"), 1.0),
            ("matches_answer", Observed(action="b", answer="a"), 0.0),
        ],
    )
    def test_values(self, name, observed, value):
        assert COMPONENTS[name].function(observed, {}) == value

    @pytest.mark.parametrize(
        ("name", "observed"),
        [
            ("verdict", Observed(verdict="liked")),
            ("calibration", Observed(verdict="confirmed")),
            ("calibration", Observed(verdict="confirmed", confidence=1.2)),
            ("matches_answer", Observed(action="a")),
            ("matches_answer", Observed(answer="a")),
        ],
    )
    def test_what_cannot_be_computed_is_an_error_and_not_a_number(self, name, observed):
        with pytest.raises(ComponentError):
            COMPONENTS[name].function(observed, {})

    @given(st.dictionaries(st.sampled_from("abc"), st.floats(-100, 100)), st.floats(0.1, 10))
    def test_totals_are_clamped_and_rewards_lie_between_0_and_1(self, values, clamp):
        raw = total(values, dict.fromkeys("abc", 2.0), clamp=clamp)
        assert -clamp <= raw <= clamp
        assert 0 <= normalise(raw) <= 1

    def test_the_scale(self):
        assert [normalise(raw) for raw in (-3, -2, 0, 1, 2, 3)] == [0, 0, 0.5, 0.75, 1, 1]
