"""Messages and tools as others write them become one form, and a prompt of a chat is sent as OpenAI has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from models_registry.backends.chat_reading import ChatFault, has_messages, holds_media, read_messages, read_tools
from models_registry.backends.chat_rows import chat_as_text, find_chat_faults
from models_registry.backends.prompts import Prompt

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
LOOK = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": {"at": "Oslo"}}}
USER = {"role": "user", "content": "Hi"}


def assistant(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", **fields}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"role": "developer", "content": "Be brief."}, {"role": "system", "content": "Be brief."}),
        ({"role": "human", "content": [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}, PICTURE]},
         {"role": "user", "content": "ab[image]"}),
        (assistant(content=None, tool_calls=[LOOK | {"function": {"name": "look", "arguments": '{"at": "Oslo"}'}}]),
         assistant(content="", tool_calls=[LOOK])),
        (assistant(content="I look.", tool_calls=[{"id": "c1", "name": "look", "arguments": {"at": "Oslo"}}]),
         assistant(content="I look.", tool_calls=[LOOK])),
        (assistant(function_call={"name": "look", "arguments": "nothing"}),
         assistant(content="", tool_calls=[{"type": "function", "function": {
             "name": "look", "arguments": {"arguments": "nothing"}}}])),
        ({"role": "tool", "tool_call_id": "c1", "name": "look", "content": [{"type": "text", "text": "rain"}]},
         {"role": "tool", "content": "rain", "tool_call_id": "c1"}),
        (assistant(content=None, refusal="No."), assistant(content="No.")),
        (assistant(content="", tool_calls=[{"id": "c1", "type": "custom", "custom": {"name": "run", "input": "ls"}}]),
         assistant(content="", tool_calls=[{"id": "c1", "type": "function", "function": {
             "name": "run", "arguments": {"arguments": "ls"}}}])),
        (assistant(content=[{"type": "thinking", "thinking": "hm"}, {"type": "refusal", "refusal": "No."}]),
         assistant(content="No.")),
    ],
)  # fmt: skip
def test_a_message_of_any_writing_has_one_form(written: dict[str, Any], read: dict[str, Any]) -> None:
    assert read_messages([USER, written, USER]) == [USER, read, USER]
    assert not list(find_chat_faults([USER, read, USER], []))


def test_an_answer_without_words_and_calls_is_left_out() -> None:
    assert read_messages([USER, assistant(content=None, tool_calls=[]), USER]) == [USER, USER]


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("Hi", "messages[1]: must be an object"),
        ({"role": "critic", "content": ""}, "messages[1].role: 'critic' must be one of system, user, assistant, tool"),
        ({"role": "user", "content": 3}, "messages[1].content: must be a text, null, or a list of parts"),
        ({"role": "user", "content": [3]}, "messages[1].content[0]: must be an object with a type"),
        (assistant(tool_calls=[{"function": {}}]), "messages[1].tool_calls[0].function.name: is missing"),
    ],
)
def test_what_is_no_message_is_named_by_its_place(message: Any, fault: str) -> None:
    with pytest.raises(ChatFault) as raised:
        read_messages([USER, message])
    assert str(raised.value) == fault


def test_pictures_and_other_media_are_known() -> None:
    assert holds_media([USER, {"role": "user", "content": [PICTURE]}])
    assert holds_media([{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}])
    said = [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "hm"}, {"type": "refusal", "refusal": "n"}]
    assert not holds_media([USER, assistant(content=said), {"role": "tool", "content": None}])
    assert has_messages({"messages": [USER]})
    assert not any(has_messages({"messages": other}) for other in ([], "Hi", [USER, "Hi"], [{"content": "Hi"}]))


def test_tools_of_any_writing_have_one_form() -> None:
    schema = {"type": "object", "properties": {"at": {"type": "string"}}}
    form = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": schema}}
    flat = {"name": "look", "description": "Looks.", "input_schema": schema}
    traced = {"tool": {"json_schema": json.dumps(form)}}
    assert read_tools([form, flat, traced, {"type": "web_search"}, "look"]) == [form] * 3
    bare = {"name": "look", "description": "", "parameters": {"type": "object", "properties": {}}}
    assert read_tools([{"type": "function", "function": {"name": "look"}}]) == [{"type": "function", "function": bare}]
    assert read_tools(None) == []


def test_a_prompt_of_a_chat_is_sent_with_arguments_as_text() -> None:
    nameless = {name: LOOK[name] for name in ("type", "function")}
    calls = assistant(content="", tool_calls=[LOOK, nameless])
    prompt = Prompt(chat_as_text([USER, calls]), "", (USER, calls))
    first, second = prompt.as_messages(" Be brief.")
    assert first == USER and second["content"] == " Be brief."
    sent = {"name": "look", "arguments": '{"at": "Oslo"}'}
    assert second["tool_calls"] == [LOOK | {"function": sent}, {**nameless, "id": "call_1", "function": sent}]
    assert Prompt("Hi", "Be brief.").as_messages() == [{"role": "system", "content": "Be brief."}, USER]
