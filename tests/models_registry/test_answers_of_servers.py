"""Answers of OpenAI-compatible servers, each with a liberty that some server takes, in the one form that is read on."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from models_registry.backends.answers import (
    MOST_WRITTEN,
    ChunkReader,
    MalformedAnswer,
    decode,
    read_completion,
    read_count,
    read_token_ids,
)


def chunk(delta: Any, reason: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more}


def piece(index: Any = ..., id: str | None = None, name: str | None = None, arguments: Any = None) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    told = {"index": index, "id": id, "function": function}
    return {key: value for key, value in told.items() if value is not ... and (key != "id" or value is not None)}


def calls_of(*pieces: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(id, name, arguments) of the calls that these pieces, each in a chunk of its own, are read as."""
    reader, calls = ChunkReader(), {}
    for one in pieces:
        for read in reader.read(chunk({"tool_calls": [one]}))["choices"][0]["delta"]["tool_calls"]:
            call = calls.setdefault(read["index"], ["", "", ""])
            call[0] = read.get("id") or call[0]
            call[1] += read["function"].get("name", "")
            call[2] += read["function"].get("arguments", "")
    assert sorted(calls) == list(range(len(calls)))
    return [(id, name, arguments) for _, (id, name, arguments) in sorted(calls.items())]


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        (  # OpenAI, vLLM
            [
                piece(0, "a", "look", ""),
                piece(0, arguments='{"q"'),
                piece(0, arguments=": 1}"),
                piece(1, "b", "send", "{}"),
            ],
            [("a", "look", '{"q": 1}'), ("b", "send", "{}")],
        ),
        (  # two calls that grow side by side
            [piece(0, "a", "look", "{"), piece(1, "b", "send", "["), piece(0, arguments="}"), piece(1, arguments="]")],
            [("a", "look", "{}"), ("b", "send", "[]")],
        ),
        (  # no index: another id is another call
            [piece(id="a", name="look", arguments="{}"), piece(id="b", name="look", arguments="{}")],
            [("a", "look", "{}"), ("b", "look", "{}")],
        ),
        (  # null as index
            [piece(None, "a", "look", '{"q":'), piece(None, arguments="1}")],
            [("a", "look", '{"q":1}')],
        ),
        (  # Gemini: each under index 0
            [piece(0, "a", "look", "{}"), piece(0, "b", "send", "{}"), piece(0, arguments=" ")],
            [("a", "look", "{}"), ("b", "send", "{} ")],
        ),
        (  # the name with every piece
            [
                piece(0, "a", "look", ""),
                piece(0, "a", "look", '{"q":'),
                piece(0, "a", "look", "1}"),
            ],
            [("a", "look", '{"q":1}')],
        ),
        ([piece(0, "a", "lo", ""), piece(0, name="ok", arguments="{}")], [("a", "look", "{}")]),
        (  # neither id nor index
            [piece(name="look", arguments="{"), piece(arguments="}"), piece(name="look", arguments="{}")],
            [("", "look", "{}"), ("", "look", "{}")],
        ),
        ([piece(0, "a", "look", {"q": "ü"})], [("a", "look", '{"q": "ü"}')]),  # arguments as an object
        ([piece(3, "a", "look", "{}"), piece("1", arguments=" ")], [("a", "look", "{} ")]),  # strange indexes
        (
            [piece(0, name="look", arguments="{"), piece(0, "a", arguments="}")],
            [("a", "look", "{}")],
        ),  # the id comes late
    ],
    ids=lambda value: None,
)
def test_pieces_of_calls_come_to_the_call_that_they_belong_to(
    pieces: list[dict[str, Any]], calls: list[tuple[str, str, str]]
) -> None:
    assert calls_of(*pieces) == calls


def test_calls_of_a_whole_answer_are_each_their_own() -> None:
    told = [piece(0, "a", "look", "{}"), piece(0, "a", "look", {"q": 1}), piece(name="look", arguments=None)]
    answer = {"choices": [{"message": {"content": None, "tool_calls": told}, "finish_reason": "tool_calls"}]}
    calls = read_completion(answer)["choices"][0]["message"]["tool_calls"]
    assert [(call["index"], call["function"].get("arguments")) for call in calls] == [
        (0, "{}"),
        (1, '{"q": 1}'),
        (2, None),
    ]
    assert [call["function"]["name"] for call in calls] == ["look"] * 3


def content_of(*deltas: dict[str, Any]) -> tuple[str, str]:
    reader, content, thoughts = ChunkReader(), "", ""
    for number, delta in enumerate(deltas):
        reason = "stop" if number == len(deltas) - 1 else None
        read = reader.read(chunk(delta, reason))["choices"][0]["delta"]
        content += read.get("content") or ""
        thoughts += read.get("reasoning_content") or ""
    return content, thoughts


@pytest.mark.parametrize(
    ("deltas", "content", "thoughts"),
    [
        ([{"content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]}], "Hi", ""),
        (
            [{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}, {"content": "a"}],
            "a",
            "hm",
        ),
        (
            [{"reasoning_content": "I think"}, {"reasoning_content": " hard."}, {"content": "Done"}],
            "Done",
            "I think hard.",
        ),
        ([{"reasoning": "so"}, {"content": "Done", "reasoning": None}], "Done", "so"),
        ([{"content": "a\ud83d"}, {"content": "\ude00b"}], "a😀b", ""),
        ([{"content": "a\ud83d"}, {}, {"content": "\ude00"}], "a😀", ""),
        ([{"content": "a\ud83d"}, {"content": "b"}], "a\ufffdb", ""),
        ([{"content": "a\ud83d"}], "a\ufffd", ""),
        ([{"content": "a\ud83d"}, {}], "a\ufffd", ""),
        ([{"content": "\ude00"}, {"content": None}], "\ufffd", ""),
    ],
)
def test_words_and_thoughts_are_text(deltas: list[dict[str, Any]], content: str, thoughts: str) -> None:
    assert content_of(*deltas) == (content, thoughts)


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (3, 3), (3.0, 3), (2.5, 2), (0, 0), (-1, None), (10**30, None), ("3", None), (True, None), (None, None),
        (float("nan"), None), (float("inf"), None), ({}, None), (2**31 - 1, 2**31 - 1), (2**31, None),
    ],
)  # fmt: skip
def test_a_count_of_tokens_is_a_whole_number_that_the_ledger_stores_or_none(value: Any, count: int | None) -> None:
    assert read_count(value) == count


def test_usage_keeps_the_counts_that_can_be_read() -> None:
    details = {"cached_tokens": 1}
    usage = {"prompt_tokens": 3.0, "completion_tokens": "x", "total_tokens": -1, "prompt_tokens_details": details}
    read = ChunkReader().read({"choices": [], "usage": usage})
    assert read["usage"] == {"prompt_tokens": 3, "prompt_tokens_details": details}
    for unreadable in (None, "3", [], {"prompt_tokens": None}):
        assert "usage" not in ChunkReader().read({"choices": [], "usage": unreadable})


@pytest.mark.parametrize(
    "answer",
    [
        None, [], "x", {}, {"choices": None}, {"choices": []}, {"choices": ["x"]}, {"choices": [{}]},
        {"choices": [{"message": "x"}]}, {"choices": [{"message": {"content": 5}}]},
        {"choices": [{"message": {"tool_calls": "x"}}]}, {"choices": [{"message": {"tool_calls": ["x"]}}]},
        {"choices": [{"message": {"tool_calls": [{"function": "x"}]}}]},
        {"choices": [{"message": {"tool_calls": [{"function": {"name": 5}}]}}]},
        {"choices": [{"message": {"tool_calls": [{"function": {"name": "x"}}] * 129}}]},
    ],
)  # fmt: skip
def test_what_is_no_completion_is_refused(answer: Any) -> None:
    with pytest.raises(MalformedAnswer):
        read_completion(answer)


@pytest.mark.parametrize(
    "told",
    [None, [], {"choices": "x"}, {"choices": ["x"]}, chunk("x"), chunk({"content": 5}), chunk({"tool_calls": 5})],
)
def test_what_is_no_chunk_is_refused(told: Any) -> None:
    with pytest.raises(MalformedAnswer):
        ChunkReader().read(told)


def test_a_reason_ends_the_stream_and_a_strange_one_does_not() -> None:
    reader = ChunkReader()
    for reason in (None, 5, ""):
        read = reader.read({"choices": [{"delta": None, "finish_reason": reason}]})
        assert read["choices"][0]["finish_reason"] is None and not reader.finished
    assert reader.read(chunk({}, "content_filter"))["choices"][0]["finish_reason"] == "content_filter"
    assert reader.finished


def test_json_that_is_almost_json_is_read() -> None:
    assert decode(b'{"a": "\\ud83d"}') == {"a": "\ud83d"}
    assert decode(b'{"a": "\xff"}') == {"a": "\ufffd"}
    assert decode(b'{"a": 1' + b"0" * 30 + b"}") == {"a": 10**30}
    assert json.dumps(decode(b'{"a": NaN}')) == '{"a": NaN}'
    for body in (b"", b"{", b"<html>", b"[" * 100_000):
        with pytest.raises(MalformedAnswer):
            decode(body)


def test_a_number_of_any_length_is_no_count() -> None:
    answer = decode(b'{"choices": [], "usage": {"prompt_tokens": 1' + b"0" * 400 + b', "completion_tokens": 2}}')
    assert ChunkReader().read(answer)["usage"] == {"completion_tokens": 2}


def test_a_name_that_grows_with_every_piece_is_refused() -> None:
    reader = ChunkReader()
    with pytest.raises(MalformedAnswer, match="more than 1024 characters"):
        for number in range(20):
            reader.read(chunk({"tool_calls": [piece(0, name="a" * 100 + str(number))]}))


MANY = "é" * 50_000
"""Letters of two bytes."""


@pytest.mark.parametrize(
    "delta",
    [{"content": MANY}, {"reasoning": MANY}, {"tool_calls": [piece(0, arguments=MANY)]}],
    ids=["words", "thoughts", "arguments"],
)
def test_more_than_a_decision_holds_is_broken_off(delta: Any) -> None:
    reader, most = ChunkReader(), MOST_WRITTEN // 100_000
    for _ in range(most):
        reader.read(chunk(delta))
    with pytest.raises(MalformedAnswer, match="more than 1 MiB of words and calls"):
        reader.read(chunk(delta))
    with pytest.raises(MalformedAnswer, match="more than 1 MiB of words and calls"):
        read_completion({"choices": [{"message": {"content": "a" * (MOST_WRITTEN + 1)}}]})
    assert read_completion({"choices": [{"message": {"content": "a" * MOST_WRITTEN}}]})


@pytest.mark.parametrize(
    "said",
    [
        *("x", {}, {"token_ids": "x"}, {"token_ids": [1, "2"]}, {"token_ids": [True]}, {"token_ids": [-1]}),
        *({"token_ids": [10**30]}, {"token_ids": [1] * 300_000}),
    ],
    ids=range(8),
)
def test_what_is_no_list_of_tokens_is_none(said: Any) -> None:
    assert read_token_ids({"reckoner": said}) is None
    assert read_token_ids({"reckoner": {"token_ids": [1, 2]}}) == [1, 2]


@pytest.mark.parametrize("form", ["delta", "message"])
def test_halves_of_characters_can_be_sent_on_wherever_they_stand(form: str) -> None:
    half = "\\ud83d"
    call = f'{{"id": "{half}", "function": {{"name": "{half}", "arguments": {{"{half}": "{half}"}}}}, "x": "{half}"}}'
    message = f'{{"content": "{half}", "refusal": "{half}", "reasoning": "{half}", "tool_calls": [{call}]}}'
    body = f'{{"id": "{half}", "x{half}": ["{half}"], "choices": [{{"{form}": {message}, "finish_reason": "{half}"}}]}}'
    answer = decode(body.encode())
    read = read_completion(answer) if form == "message" else ChunkReader().read(answer)
    assert b"\\ud" not in msgspec.json.encode(read)


def test_a_character_cut_in_halves_is_one_again() -> None:
    reader = ChunkReader()
    deltas = [
        decode(f'{{"choices": [{{"delta": {{"content": "{half}"}}}}]}}'.encode()) for half in ("\\ud83d", "\\ude00")
    ]
    assert "".join(reader.read(one)["choices"][0]["delta"]["content"] for one in deltas) == "\U0001f600"
