"""An action of an agent that chats is the assistant's message."""

from __future__ import annotations

import json

from decisions.agents.replies import has_unread, make_reply

CALL = {"name": "look", "arguments": {"at": "Oslo"}}
CALLED = {"type": "function", "function": CALL}
RESPOND = {"name": "respond", "arguments": {"content": "It rains."}}


def said(content, *calls):
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {})}


def test_words_and_calls_are_one_message():
    assert make_reply("It rains.") == make_reply([], "It rains.") == said("It rains.")
    assert make_reply([CALL | {"id": "c1"}]) == said("", CALLED | {"id": "c1"})
    assert make_reply([CALL], "I look.") == said("I look.", CALLED)
    assert make_reply([CALL], json.dumps([CALL])) == said("", CALLED)  # the words are the calls
    assert make_reply([CALL], "[1] is my source.") == said("[1] is my source.", CALLED)
    assert make_reply([]) == said("")


def test_an_answer_that_an_importer_wrote_as_a_call_is_words_unless_there_is_such_a_tool():
    assert make_reply([RESPOND], "It rains.") == said("It rains.")
    tool = {"type": "function", "function": {"name": "respond"}}
    assert make_reply([RESPOND], None, [tool]) == said("", {"type": "function", "function": RESPOND})


def test_what_is_neither_is_no_message():
    assert all(make_reply(action) is None for action in ({"status": "TODO"}, ["n1", "n2"], None, [{"name": "look"}]))
    assert has_unread([{"name": "look", "arguments": {}, "unread": "{"}])
    assert not has_unread([CALL]) and not has_unread("unread")
