"""How calls of tools are told to a model, and read from what it writes."""

import pytest

from training.engine.models.chats import INSTRUCTION, takes_tools, written_out
from training.engine.rows.calls import Call, as_completion, certain_words
from training.engine.serving.tools import Tool, read_calls
from training.engine.spec.reward_function import facts_of_text, read_value

TOOLS = (Tool("search", "Finds notes.", {"type": "object"}), Tool("now", None, None))
DESCRIBED = [tool.described() for tool in TOOLS]
SEARCH = Call("search", '{"query": "tea"}')


@pytest.mark.parametrize(
    ("text", "words", "calls"),
    [
        ('[{"name": "search", "arguments": {"query": "tea"}}, {"name": "now"}]', "", [SEARCH, Call("now", "{}")]),
        ('{"arguments":{"query":"tea"},"name":"search"}', "", [SEARCH]),
        ('{"name": "search", "parameters": {"query": "tea"}}', "", [SEARCH]),
        ('<tool_call>\n{"name": "search", "arguments": {"query": "tea"}}\n</tool_call>', "", [SEARCH]),
        (
            'I look.\n<tool_call>{"name": "now"}</tool_call><tool_call>{"name": "now"}',
            "I look.\n",
            [Call("now", "{}")] * 2,
        ),
        ('I look.\n[{"name": "search", "arguments": {"query": "tea"}}]', "I look.", [SEARCH]),
        ('One\n{"name": "now"}\n', "One", [Call("now", "{}")]),
        ('One\n{"name": "now"}\nor two', None, []),
        ('<tool_call>{"name": "delete"}</tool_call>', None, []),
        ('[{"name": "search", "arguments": "tea"}]', None, []),
        ('[{"name": {"name": "search"}, "arguments": {}}]', None, []),
        ('<tool_call>{"name": ["search"]}</tool_call>', None, []),
        ('[{"name": "search", "arguments": {"query": NaN}}]', None, []),
        ('[{"name": "search", "arguments": {"query": 1e999}}]', None, []),
        (r'[{"name": "search", "arguments": {"query": "\ud800"}}]', None, []),
        ('{"query": "tea"}', None, []),
        ("[" * 9999, None, []),
        ("[]", None, []),
        ("plain words", None, []),
    ],
)
def test_calls_are_read_in_the_usual_notations_and_nothing_else_is_one(text, words, calls):
    assert read_calls(text, TOOLS) == (text if words is None else words, calls)


@pytest.mark.parametrize(
    ("text", "certain"),
    [
        ("", 0),
        ("  ", 0),
        (' {"a"', 0),
        ("[1", 0),
        ("one <", 4),
        ("one <tool", 4),
        ("one <b", 6),
        ("a<tool_call>{", 1),
        ("a\n[{", 1),
        ("a\n", 1),
        ("a\n[x] b", 7),
        ("a\n\nb", 4),
    ],
)
def test_what_may_become_a_call_is_held_back(text, certain):
    assert certain_words(text) == certain


def test_a_template_without_tools_gets_them_as_text():
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": {"query": "tea"}}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Tea?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "three notes", "tool_call_id": "c1"},
        {"role": "tool", "content": "lost"},
    ]
    system, user, said, result = written_out(messages, DESCRIBED)
    assert system["content"].startswith("Be brief.\n\n" + INSTRUCTION) and '"Finds notes."' in system["content"]
    assert user == messages[1]
    assert read_calls(said["content"], TOOLS) == ("", [SEARCH])
    assert result == {"role": "user", "content": "Result of search: three notes\nResult of a tool: lost"}
    assert written_out(messages[1:2], DESCRIBED)[0]["content"].startswith(INSTRUCTION)
    assert written_out(messages[:2], ()) == messages[:2]


def test_a_template_that_reads_tools_is_known():
    assert takes_tools("{%- if tools %}x{% endif %}") and takes_tools("{{ tools | tojson }}")
    assert not takes_tools("You have no tools. {{ message['content'] }}")


def test_calls_are_compared_by_value_whatever_notation_they_are_written_in():
    completion = '[{"arguments":{"query":"tea"},"name":"search"}]'
    written = '<tool_call>{"name": "search", "arguments": {"query": "tea"}}</tool_call>'
    assert as_completion(written, DESCRIBED) == completion
    assert as_completion("I look.\n" + written, DESCRIBED) == "I look.\n" + completion
    assert as_completion(written, ()) == written and as_completion("tea", DESCRIBED) == "tea"
    calls = [{"name": "search", "arguments": {"query": "tea"}}]
    assert read_value(completion) == read_value("I look.\n" + completion) == calls
    assert read_value("three\n[1, 2]") is None and read_value("[1, 2]") == [1, 2]
    facts = facts_of_text(as_completion(written, DESCRIBED), "Let me see.\n" + completion)
    assert facts.action == facts.answer == calls
    assert facts_of_text("tea", completion).action == "tea"
