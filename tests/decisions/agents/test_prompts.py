"""Prompts: templates filled from states."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decisions.agents.prompts import PromptError, make_prompt, render_prompt, template_fields
from decisions.models import AgentVersion
from models_registry.backends.prompts import Prompt


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


def version(space="text", system="", template="{{ input }}", **fields):
    return AgentVersion(action_space=space, system_prompt=system, prompt_template=template, **fields)


def state(*messages, **fields):
    return {"input": messages[-1]["content"], "messages": list(messages), **fields}


FRENCH = {"role": "system", "content": "Answer only in French."}
FLIGHT = {"role": "user", "content": "Book me a flight"}
WHICH = {"role": "assistant", "content": "Which day?"}
TUESDAY = {"role": "user", "content": "Tuesday"}
LOOK = {"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}


class TestChats:
    def test_a_chat_is_asked_as_it_is_after_the_version_s_system_prompt(self):
        prompt = make_prompt(version(system="You book."), state(FRENCH, FLIGHT, WHICH, TUESDAY, tools=[LOOK]))
        first = {"role": "system", "content": "You book.\n\nAnswer only in French."}
        assert prompt.messages == (first, FLIGHT, WHICH, TUESDAY) and prompt.tools == (LOOK,)
        assert prompt.text == (
            "System: You book.\n\nAnswer only in French.\n\nUser: Book me a flight\n\nAssistant: Which day?\n\n"
            "User: Tuesday"
        )
        assert prompt.system == ""

    @pytest.mark.parametrize("template", ["Q: {{ input }}", "{{ text }}", "Always this."])
    def test_one_message_alone_is_the_prompt_whatever_the_template(self, template):
        asked = version(system="You book.", template=template)
        assert make_prompt(asked, state(FLIGHT)) == Prompt("Book me a flight", "You book.")
        assert make_prompt(asked, state(FLIGHT, tools=[LOOK])).messages[1:] == (FLIGHT,)
        assert len(make_prompt(version(), state(FRENCH, FLIGHT)).messages) == 2

    def test_other_agents_and_templates_of_more_than_a_chat_are_asked_by_the_template(self):
        chat = state(FLIGHT, WHICH, TUESDAY)
        assert make_prompt(version("choice"), chat) == Prompt("Tuesday")
        told = version(template="{{ customer }} asks: {{ input }}")
        assert make_prompt(told, chat | {"customer": "Ann"}) == Prompt("Ann asks: Tuesday")
        imported = version(template="messages: {{ messages }}\nmodel: {{ model }}")
        assert make_prompt(imported, chat | {"model": "gpt"}).messages == (FLIGHT, WHICH, TUESDAY)
        assert make_prompt(told, chat).messages  # where nothing else is known, the chat is all there is

    def test_tools_that_the_version_offered_with_a_decision_stand_in_the_chat(self):
        own = version("tool_calls", action_schema={"properties": {"look": {"type": "object", "description": "Looks."}}})
        described = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
        chat = state(FLIGHT, WHICH, TUESDAY)
        assert make_prompt(own, chat, ["look"]).tools == ({"type": "function", "function": described},)
        assert make_prompt(own, chat).tools == ()  # a client's chat, which offered none

    def test_a_role_that_nobody_knows_is_named(self):
        with pytest.raises(PromptError) as raised:
            make_prompt(version(), state(FLIGHT, {"role": "critic", "content": "no"}, TUESDAY))
        assert raised.value.field == "state.messages[1].role"
