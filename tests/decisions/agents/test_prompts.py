"""Prompts: templates filled from states."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decisions.agents.prompts import PromptError, render_prompt, template_fields


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
