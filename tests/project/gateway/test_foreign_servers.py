"""Streams and answers as foreign servers send them, through the gateway's process: what the client gets, and what the
ledger keeps. Written by hand after the forms of those servers."""

import json
from typing import Any

import openai
import pytest

from decisions.agents.revising import revise_agent
from decisions.models import Decision
from models_registry.models import Call
from tests.project.gateway.test_chats import SAYS, WEATHER, chat

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("gateway")]
EVENTS = {"content-type": "text/event-stream"}
HEAD = {"id": "chatcmpl-x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
LOOK, SEND = {"name": "look", "arguments": {"q": "x"}}, {"name": "send", "arguments": {"to": "y"}}


def chunk(delta: Any, reason: str | None = None, **more: Any) -> dict[str, Any]:
    return HEAD | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]} | more


def sse(*chunks: dict[str, Any] | bytes, done: bool = True) -> bytes:
    lines = [one if isinstance(one, bytes) else b"data: " + json.dumps(one).encode() for one in chunks]
    return b"\n\n".join([*lines, *([b"data: [DONE]", b""] if done else [])])


def call(name: str, arguments: str, **rest: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}} | rest


TOLD = '{"q": "x"}', '{"to": "y"}'
STREAMS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "OpenAI and vLLM": (
        sse(
            chunk({"role": "assistant", "content": ""}),
            chunk({"content": "Hi"}),
            chunk({}, "stop"),
            HEAD | {"choices": [], "usage": USAGE},
        ),
        {"text": "Hi", "tokens_out": 2},
    ),
    "Azure, which begins with its filter's results": (
        sse(
            {"choices": [], "prompt_filter_results": [{"prompt_index": 0}], "id": "", "model": "", "object": ""},
            chunk({"role": "assistant", "content": "Hi"}, content_filter_results={}),
            chunk({}, "stop"),
        ),
        {"text": "Hi"},
    ),
    "Azure, whose filter has ended the answer": (
        sse(chunk({"role": "assistant", "content": ""}), chunk({}, "content_filter")),
        {"text": "", "reason": "content_filter"},
    ),
    "Gemini, whose calls all have index 0": (
        sse(
            chunk({"role": "assistant", "tool_calls": [call("look", TOLD[0], index=0, id="c1")]}),
            chunk({"tool_calls": [call("send", TOLD[1], index=0, id="c2")]}),
            chunk({}, "tool_calls", usage=USAGE),
        ),
        {"calls": [LOOK, SEND], "reason": "tool_calls"},
    ),
    "calls without an index": (
        sse(
            chunk({"tool_calls": [call("look", TOLD[0], id="c1")]}),
            chunk({"tool_calls": [call("look", TOLD[0], id="c2")]}),
            chunk({}, "tool_calls"),
        ),
        {"calls": [LOOK, LOOK], "reason": "tool_calls"},
    ),
    "calls whose index is null": (
        sse(
            chunk({"tool_calls": [call("look", TOLD[0][:4], index=None, id="c1")]}),
            chunk({"tool_calls": [{"index": None, "function": {"arguments": TOLD[0][4:]}}]}),
            chunk({}, "tool_calls"),
        ),
        {"calls": [LOOK], "reason": "tool_calls"},
    ),
    "a name with every piece": (
        sse(
            *(chunk({"tool_calls": [call("look", part, index=0, id="c1")]}) for part in ("", TOLD[0][:4], TOLD[0][4:])),
            chunk({}, "tool_calls"),
        ),
        {"calls": [LOOK], "reason": "tool_calls"},
    ),
    "Ollama, whose call comes whole with the reason stop": (
        sse(
            chunk({"role": "assistant", "content": "", "tool_calls": [call("look", TOLD[0], index=0, id="c1")]}, "stop")
        ),
        {"calls": [LOOK], "reason": "stop"},
    ),
    "Mistral, whose content is parts": (
        sse(
            chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]}),
            chunk({"content": [{"type": "text", "text": "Hi"}]}),
            chunk({}, "stop", usage=USAGE),
        ),
        {"text": "Hi", "reasoning": "Hm.", "tokens_out": 2},
    ),
    "a model that thinks": (
        sse(
            chunk({"role": "assistant", "reasoning_content": "I think"}),
            chunk({"reasoning_content": " hard."}),
            chunk({"content": "Done"}),
            chunk({}, "stop"),
        ),
        {"text": "Done", "reasoning": "I think hard."},
    ),
    "llama.cpp, with its timings": (
        sse(
            chunk({"role": "assistant", "content": None}), chunk({"content": "Hi"}), chunk({}, "stop", timings={"x": 1})
        ),
        {"text": "Hi"},
    ),
    "counts that are fractions": (
        sse(
            chunk({"content": "Hi"}, "stop", usage={"prompt_tokens": 3.0, "completion_tokens": 2.5, "total_tokens": 5})
        ),
        {"text": "Hi", "tokens_out": 2},
    ),
    "counts that are none": (
        sse(chunk({"content": "Hi"}, "stop", usage={"prompt_tokens": -1, "completion_tokens": 10**30})),
        {"text": "Hi", "tokens_out": None},
    ),
    "no [DONE]": (
        sse(chunk({"content": "He"}), chunk({"content": "llo"}), chunk({}, "stop"), done=False),
        {"text": "Hello"},
    ),
    "a letter in two chunks": (
        sse(
            b'data: {"choices": [{"index": 0, "delta": {"content": "a\\ud83d"}}]}',
            b'data: {"choices": [{"index": 0, "delta": {"content": "\\ude00"}}]}',
            chunk({}, "stop"),
        ),
        {"text": "a😀"},
    ),
    "comments, carriage returns and an error that is null": (
        sse(
            b": ping",
            b"event: message\r\ndata: " + json.dumps(chunk({"content": "Hi"}, "stop", error=None)).encode() + b"\r",
        ),
        {"text": "Hi"},
    ),
}


@pytest.fixture
def planner(chatting, deploy, serve):
    server = serve()
    deploy(chatting("planner", "tool_calls"), "tools", server.url)
    return server


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_read_as_its_server_means_it(name, client, helper, planner):
    body, right = STREAMS[name]
    calls = "calls" in right
    server = planner if calls else helper[2]
    server.answers.append((200, body, EVENTS))
    model = chat("planner", tools=[WEATHER]) if calls else chat()
    with client.chat.completions.stream(**model) as stream:
        for _ in stream:
            pass
        told = stream.current_completion_snapshot.choices[0]  # the final one raises where a filter ended it
    decision = Decision.objects.get()
    if calls:
        assert [(one.function.name, json.loads(one.function.arguments)) for one in told.message.tool_calls] == [
            (one["name"], one["arguments"]) for one in right["calls"]
        ]
        ids = [{"id": one.id} if one.id else {} for one in told.message.tool_calls]
        assert decision.action == [one | own for one, own in zip(right["calls"], ids, strict=True)]
    else:
        assert (told.message.content or "", decision.action) == (right["text"], right["text"])
    assert told.finish_reason == decision.finish_reason == right.get("reason", "stop")
    assert decision.reasoning == right.get("reasoning")
    assert decision.tokens_out == right.get("tokens_out", decision.tokens_out)
    assert Call.objects.get().state == "answered"


WHOLE: list[tuple[dict[str, Any], str, str | None]] = [
    ({"content": [{"type": "text", "text": "Hi"}]}, "Hi", None),
    ({"content": "Hi", "reasoning_content": "Hm."}, "Hi", "Hm."),
    ({"content": "Hi", "reasoning": "Hm."}, "Hi", "Hm."),
]


def test_a_whole_answer_is_read_in_the_same_form(client, helper):
    for message, text, reasoning in WHOLE:
        usage = {"prompt_tokens": 3.0, "completion_tokens": 10**30, "total_tokens": None}
        helper[2].answers.append((200, {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}))
        told = client.chat.completions.create(**chat())
        decision = Decision.objects.order_by("-id").first()
        assert (told.choices[0].message.content, decision.action, decision.reasoning) == (text, text, reasoning)
        assert (decision.tokens_in, decision.tokens_out) == (3, None)


WRONG = [
    {"choices": ["x"]}, {"choices": [{"message": "x"}]}, {"choices": [{"message": {"content": 5}}]}, ["x"], b"<html>",
    {"choices": [{"message": {"tool_calls": "x"}}]},
]  # fmt: skip


@pytest.mark.parametrize("body", WRONG, ids=str)
def test_an_answer_of_the_wrong_shape_is_that_server_s_failure_and_the_next_one_answers(
    body, client, helper, deploy, serve
):
    agent, version, first = helper
    second = serve()
    second.pick = SAYS
    deploy(agent, "other", second.url, version=version)
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    first.answers.append((200, encoded))
    first.answers.append((200, b"data: " + encoded.replace(b"message", b"delta") + b"\n\n", EVENTS))
    assert client.chat.completions.create(**chat()).choices[0].message.content == SAYS
    with client.chat.completions.stream(**chat()) as stream:
        assert stream.get_final_completion().choices[0].message.content == SAYS
    assert (len(first.asked), len(second.asked)) == (2, 2)
    assert [call.fallback != "" for call in Call.objects.all()] == [True, True]


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_s_429_stays_one_with_its_wait_where_no_other_answers(stream, client, helper, deploy, serve):
    agent, version, first = helper
    busy = (429, {"error": {"message": "Rate limit reached", "type": "requests"}}, {"retry-after": "7.2"})
    first.answers.append(busy)
    with pytest.raises(openai.RateLimitError) as refused:
        client.chat.completions.create(**chat(stream=stream))
    assert (refused.value.code, refused.value.response.headers["retry-after"]) == ("rate_limit_exceeded", "8")
    assert "Rate limit reached" in refused.value.message
    call = Call.objects.get()
    assert (call.state, Decision.objects.count()) == ("failed", 0)
    second = serve()
    second.pick = SAYS
    deploy(agent, "other", second.url, version=version)
    first.answers.append(busy)
    assert client.chat.completions.create(**chat()).choices[0].message.content == SAYS


def refuse(name: str, code: str) -> tuple[int, dict[str, Any]]:
    message = f"Unsupported {code.removeprefix('unsupported_')}: '{name}' is not supported with this model."
    return 400, {"error": {"message": message, "type": "invalid_request_error", "param": name, "code": code}}


def test_what_a_reasoning_model_refuses_is_learnt_by_one_refusal_each(client, helper):
    server = helper[2]
    server.answers += [refuse("max_tokens", "unsupported_parameter"), refuse("temperature", "unsupported_value")]
    assert client.chat.completions.create(**chat(temperature=0)).choices[0].message.content == SAYS
    client.chat.completions.create(**chat(max_tokens=5, temperature=0.5))
    client.responses.create(model="helper", input="How?", max_output_tokens=6)
    limits = [
        (body.get("max_tokens"), body.get("max_completion_tokens"), body.get("temperature")) for body in server.asked
    ]
    assert limits == [(99, None, 0), (None, 99, 0), (None, 99, None), (None, 5, None), (None, 6, None)]
    assert set(Decision.objects.values_list("temperature", "propensity")) == {(None, None)}
    server.answers.append(
        (400, {"error": {"message": "max_completion_tokens is too large", "param": "max_completion_tokens"}})
    )
    with pytest.raises(openai.BadRequestError, match="too large"):  # the number is wrong, not its name
        client.chat.completions.create(**chat(max_tokens=10**9))
    assert len(server.asked) == 6


def test_a_developer_s_message_stands_under_the_version_s_system_prompt(client, by, helper):
    agent, _, server = helper
    revise_agent(by=by, agent=agent, expected=1, changes={"system_prompt": "You plan journeys."})
    asked = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "How?"}]
    client.chat.completions.create(model="helper", messages=asked)
    both = {"role": "developer", "content": "You plan journeys.\n\nBe brief."}
    assert server.asked[0]["messages"] == [both, asked[1]]
    assert Decision.objects.get().state["messages"] == asked
