"""Chats of files are cut into the assistant's turns, in one form, or refused by their place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from models_registry.backends.chat_reading import read_tools
from models_registry.backends.chat_rows import find_chat_faults, find_reply_faults
from training.imports.chat_turns import served_turn, split_turns

ASKED, ANSWERED = {"role": "user", "content": "Q1"}, {"role": "assistant", "content": "A1"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": {"at": "Oslo"}}}
LOOK = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}


def said(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


def test_every_turn_of_the_assistant_is_one_with_all_that_was_said_before() -> None:
    chat = [said("developer", "Be brief."), ASKED, ANSWERED, said("user", "Q2"), said("assistant", "A2")]
    first, second = split_turns(chat)
    assert first.before == (said("system", "Be brief."), ASKED) and first.reply == ANSWERED
    assert second.before == (said("system", "Be brief."), ASKED, ANSWERED, said("user", "Q2"))
    assert second.reply == said("assistant", "A2")


def test_calls_and_their_results_have_one_form_however_a_client_writes_them() -> None:
    as_text = said("assistant", None, tool_calls=[CALL | {"function": {"name": "look", "arguments": '{"at":"Oslo"}'}}])
    result = said("tool", [{"type": "text", "text": "Ra"}, {"type": "text", "text": "in"}], tool_call_id="c1")
    call, answer = split_turns([ASKED, as_text, result, ANSWERED], [{"type": "function", "function": LOOK}])
    assert call.reply == said("assistant", "", tool_calls=[CALL])
    assert answer.before == (ASKED, call.reply, said("tool", "Rain", tool_call_id="c1"))
    old = said("assistant", None, function_call={"name": "look", "arguments": '{"at":"Oslo"}'})
    call, answer = split_turns([ASKED, old, said("function", "Rain", name="look"), ANSWERED], [LOOK])
    assert call.reply == said("assistant", "", tool_calls=[CALL | {"id": "call_1_0"}])
    assert answer.before[-1] == said("tool", "Rain", tool_call_id="call_1_0", name="look")
    for turn in (call, answer):
        assert not [*find_chat_faults(turn.before, read_tools([LOOK])), *find_reply_faults("reply", turn.reply)]


def test_successive_messages_of_the_assistant_are_one_turn_and_empty_ones_none() -> None:
    [turn] = split_turns([ASKED, said("assistant", None, tool_calls=[]), ANSWERED])
    assert turn == ((ASKED,), ANSWERED)
    [turn] = split_turns([ASKED, said("assistant", "I look."), said("assistant", None, tool_calls=[CALL])])
    assert turn.reply == said("assistant", "I look.", tool_calls=[CALL])


def test_a_greeting_and_turns_of_weight_0_are_context() -> None:
    chat = [said("assistant", "Hello!"), ASKED, ANSWERED | {"weight": 0}, said("user", "Q2"), said("assistant", "A2")]
    [turn] = split_turns(chat)
    assert turn.reply["content"] == "A2" and [one["content"] for one in turn.before] == ["Hello!", "Q1", "A1", "Q2"]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        (
            [ASKED, ANSWERED, said("user", "Q2")],
            "messages: end with the user's; the assistant's reply to it is missing",
        ),
        ([ASKED], "messages: none is the assistant's, so there is nothing to learn"),
        ([], "messages: none is the assistant's, so there is nothing to learn"),
        ([said("assistant", "Hi")], "messages: no turn of the assistant's answers anything that is learnt from"),
        ("hello", "messages: must be a list"),
        ([ASKED, "hi"], "messages[1]: must be an object"),
        ([ASKED, said("bot", "hi")], "messages[1].role: 'bot' must be one of system, user, assistant, tool"),
        ([said("user", 7), ANSWERED], "messages[0].content: must be a text, null, or a list of parts"),
        (
            [said("user", [{"type": "image_url", "image_url": {"url": "x"}}]), ANSWERED],
            "messages[0].content[0]: is of type 'image_url'; only parts of text can be learnt from",
        ),
        (
            [ASKED, said("tool", "Rain"), ANSWERED],
            "messages[1].tool_call_id: is missing, and no call before it waits for a result",
        ),
        (
            [ASKED, said("assistant", None, tool_calls=[CALL | {"function": {"name": "send", "arguments": {}}}])],
            "messages[1].tool_calls: 'send' is not among the tools",
        ),
        (
            [ASKED, said("assistant", "", tool_calls=[{"function": {"name": "look", "arguments": "[1]"}}])],
            "messages[1].tool_calls[0].function.arguments: must be an object",
        ),
        ([ASKED, said("assistant", "", tool_calls={"name": "look"})], "messages[1].tool_calls: must be a list"),
        (
            [ASKED, said("assistant", "", tool_calls=[{"function": {"name": "look", "arguments": "{"}}])],
            "messages[1].tool_calls[0].function.arguments: is not JSON: Input data was truncated",
        ),
    ],
)
def test_what_is_no_chat_is_refused_by_its_place(messages: Any, reason: str) -> None:
    with pytest.raises(ValueError, match="messages") as refused:
        split_turns(messages, [LOOK])
    assert str(refused.value) == reason


def test_tools_may_be_text_and_without_their_wrapping() -> None:
    whole = [{"type": "function", "function": LOOK}]
    assert read_tools(json.dumps([LOOK]), strict=True) == whole
    assert read_tools([{"name": "look", "description": "Looks.", "input_schema": LOOK["parameters"]}]) == whole
    assert read_tools(None, strict=True) == read_tools("", strict=True) == []


@pytest.mark.parametrize(
    ("tools", "reason"),
    [
        ([{"type": "function"}], "tools[0].function.name: is missing"),
        ([LOOK | {"parameters": "none"}], "tools[0].function.parameters: must be an object"),
        ("[", "tools: is not JSON: Input data was truncated"),
        ({"name": "look"}, "tools: must be a list"),
    ],
)
def test_what_is_no_tool_is_refused_by_its_place(tools: Any, reason: str) -> None:
    with pytest.raises(ValueError, match="tools") as refused:
        read_tools(tools, strict=True)
    assert str(refused.value) == reason


def test_a_decision_s_chat_stays_as_it_was_served() -> None:
    nameless = {name: CALL[name] for name in ("type", "function")}
    chat = [ASKED, said("assistant", "", tool_calls=[nameless]), said("tool", "Rain"), ANSWERED]
    assert served_turn(chat) == (tuple(chat[:-1]), ANSWERED)
    other = said("assistant", "", tool_calls=[CALL | {"function": {"name": "send", "arguments": {}}}])
    assert served_turn([ASKED, other]).reply == other
    *_, named = split_turns(chat)
    assert named.before[-1]["tool_call_id"] == named.before[1]["tool_calls"][0]["id"] == "call_1_0"


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "messages: end without an answer of the assistant's"),
        ([ASKED, ANSWERED | {"content": ""}], "messages: end without an answer of the assistant's"),
        ([said("system", "S"), ANSWERED], "messages: nobody asks anything before the answer"),
        ([ASKED, ANSWERED, ANSWERED], "messages: the answer follows the assistant's own message, not the user's"),
    ],
)
def test_a_decision_that_answers_nobody_is_refused(messages: Any, reason: str) -> None:
    with pytest.raises(ValueError, match="messages") as refused:
        served_turn(messages)
    assert str(refused.value) == reason


def test_a_chat_whose_turns_repeat_too_much_is_refused_before_they_are_written() -> None:
    said = [{"role": role, "content": "word " * 200} for _ in range(500) for role in ("user", "assistant")]
    with pytest.raises(ValueError, match=r"the turns up to messages\[\d+\] repeat more than 33,554,432 characters"):
        split_turns(said)
    assert len(split_turns(said[:120])) == 60
