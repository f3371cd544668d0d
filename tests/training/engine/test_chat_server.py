"""Chats over HTTP as a gateway asks for them: streams, forms, tools, several answers, and what they were worth."""

import json
import math
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import jsonschema
import openai
import pytest

from tests.training.engine.server_world import PROMPTS, SHORT, TOKEN, Process, item, make_shelf

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning:transformers.*"),  # its own deprecations, about itself
]

ENDLESS = {"1": -100}
"""A bias against the end of sequence."""
BLOCKS = (
    "{% if tools %}<|system|>Tools: {{ tools | tojson }} as <tool_call>\n{}\n</tool_call><|end|>{% endif %}"
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function.arguments.id }}{% endfor %}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SCHEMA = {
    "type": "object",
    "properties": {
        "folder": {"enum": ["travel", "finance"]},
        "pages": {"type": "array", "items": {"$ref": "#/$defs/page"}, "minItems": 1, "maxItems": 2},
    },
    "required": ["folder", "pages"],
    "additionalProperties": False,
    "$defs": {"page": {"type": "integer", "minimum": 1, "maximum": 99}},
}
TOOLS = [
    {"type": "function", "function": {"name": "file_note", "description": "Files it.", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "now"}},
]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    return make_shelf(tmp_path_factory)


@pytest.fixture(scope="module")
def roomy(shelf) -> dict[str, str]:
    """Bases with room for long messages, by the template they have."""
    return {
        "plain": shelf.make_base(20, positions=1500)[0],
        "blocks": shelf.make_base(21, positions=1500, template=BLOCKS)[0],
        "endless": shelf.make_base(22, positions=30_000)[0],
    }


@pytest.fixture(scope="module")
def server(shelf, roomy):
    process = Process(shelf.root)
    yield process
    status, log = process.stop()
    assert status == 0, log
    assert "internal_error" not in log and "failed" not in log and "Traceback" not in log, log


def stream(server, model: str, content: str = PROMPTS[0], **parameters) -> list[dict]:
    """The chunks of a stream that ends as it should."""
    answer = server.chat(model, content, stream=True, **parameters)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream"), answer.text
    events = answer.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""] and all(event.startswith("data: ") for event in events[:-1])
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


def text_of(chunks: list[dict], index: int = 0) -> str:
    choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def test_a_stream_has_the_chunks_of_openai_and_the_text_of_a_whole_answer(server, shelf):
    asked = {"seed": 5, "temperature": 1.8, "max_tokens": 30, "n": 2, "logprobs": True, "top_logprobs": 2}
    whole = server.chat(shelf.base, PROMPTS[0], **asked).json()
    chunks = stream(server, shelf.base, stream_options={"include_usage": True}, **asked)
    assert len({chunk["id"] for chunk in chunks}) == 1 and {chunk["object"] for chunk in chunks} == {
        "chat.completion.chunk"
    }
    first, last = chunks[0], chunks[-1]
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert last["choices"] == [] and last["usage"] == whole["usage"]
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    for index, expected in enumerate(whole["choices"]):
        own = [chunk["choices"][0] for chunk in chunks[:-1] if chunk["choices"][0]["index"] == index]
        assert text_of(chunks, index) == expected["message"]["content"]
        assert [choice["finish_reason"] for choice in own] == [None] * (len(own) - 1) + [expected["finish_reason"]]
        assert own[-1]["delta"] == {} and len(own) > 3
        told = [token for choice in own if choice["logprobs"] for token in choice["logprobs"]["content"]]
        assert [token["token"] for token in told] == [t["token"] for t in expected["logprobs"]["content"]]
        assert own[-1]["reckoner"]["token_ids"] == expected["reckoner"]["token_ids"]
    plain = stream(server, shelf.base, max_tokens=2)
    assert all("usage" not in chunk for chunk in plain) and plain[-1]["choices"][0]["finish_reason"]


def test_what_is_wrong_with_a_stream_is_a_plain_refusal(server, shelf):
    for change, status, code in (
        ({"max_tokens": 100_000}, 400, "context_length_exceeded"),
        ({"temperature": 3}, 400, "invalid_request"),
        ({"model": "0" * 64}, 404, "model_not_found"),
    ):
        model = change.pop("model", shelf.base)
        refused = server.chat(model, "hello", stream=True, **change)
        assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_caller_who_leaves_frees_its_rows(server, roomy, streamed):
    body = {
        "model": roomy["endless"],
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": 29_000,
        "logit_bias": ENDLESS,
        "n": 8,
    }

    def answering() -> int:
        return server.client.get("/readyz").json()["answering"]

    def wait_for(rows: int) -> None:
        assert any(answering() == rows or time.sleep(0.01) for _ in range(2000))

    with httpx.Client(base_url=server.address, headers=server.client.headers, trust_env=False, verify=False) as caller:
        if streamed:
            with caller.stream("POST", "/v1/chat/completions", json=body | {"stream": True}) as answer:
                lines = answer.iter_lines()  # kept: an iterator that is collected closes the connection
                next(lines)
                wait_for(8)
        else:
            with pytest.raises(httpx.ReadTimeout):
                caller.post("/v1/chat/completions", json=body, timeout=httpx.Timeout(60, read=0.5))
    wait_for(0)  # of 8 · 29,000 tokens it would take far longer


def test_answers_tell_how_probable_they_were(server, shelf):
    """At temperature 1 the policy is the model; greedily it is certain; a bias makes them differ."""
    plain, cold, biased = (
        server.chat(shelf.base, PROMPTS[0], max_tokens=8, seed=1, logprobs=True, **more).json()
        for more in ({}, {"temperature": 0}, {"logit_bias": ENDLESS, "temperature": 0.7, "top_p": 0.8})
    )
    for answer in (plain, cold, biased):
        choice = answer["choices"][0]
        told = choice["logprobs"]["content"]
        assert choice["reckoner"]["logprob"] == pytest.approx(sum(token["logprob"] for token in told), abs=1e-4)
        assert len(choice["reckoner"]["token_ids"]) == answer["usage"]["completion_tokens"]
        assert answer["reckoner"] == {"model": shelf.base, "digest": shelf.base}
    measured = [answer["choices"][0]["reckoner"] for answer in (plain, cold, biased)]
    assert measured[0]["policy_logprob"] == pytest.approx(measured[0]["logprob"], abs=1e-4)
    assert measured[1]["policy_logprob"] == 0 > measured[1]["logprob"]
    assert measured[2]["logprob"] < measured[2]["policy_logprob"] < 0


def test_choices_are_decided_by_the_scorer(server, shelf):
    """With the probabilities of /score, and a propensity that follows from them."""
    adapter = next(iter(shelf.adapters))
    [p] = server.probabilities(item(adapter, PROMPTS[0], SHORT))
    asked = {"structured_outputs": {"choice": SHORT}}
    greedy, *drawn = (
        server.chat(adapter, PROMPTS[0], **asked, **more).json()["choices"]
        for more in ({"temperature": 0}, {"temperature": 0.5, "n": 16, "seed": 1}, {"temperature": 2.0, "n": 16})
    )
    assert greedy[0]["message"]["content"] == SHORT[p.index(max(p))]
    for choices, temperature in zip(drawn, (0.5, 2.0), strict=True):
        weights = [value ** (1 / temperature) for value in p]
        for choice in choices:
            place = SHORT.index(choice["message"]["content"])
            measured = choice["reckoner"]
            assert measured["probabilities"] == pytest.approx(p, abs=1e-5)
            assert measured["policy_logprob"] == pytest.approx(math.log(weights[place] / sum(weights)), abs=1e-4)
            assert measured["logprob"] == pytest.approx(math.log(p[place]), abs=1e-4)
            assert choice["finish_reason"] == "stop"
    assert len({choice["message"]["content"] for choice in drawn[1]}) > 1
    assert text_of(stream(server, adapter, temperature=0, **asked)) == greedy[0]["message"]["content"]


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_is_valid_against_its_schema_unless_it_was_cut(server, roomy, streamed):
    """The model has random weights: it knows nothing of JSON."""
    forms = [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
        {"structured_outputs": {"json": SCHEMA}},
        {"response_format": {"type": "json_object"}, "max_tokens": 80},
    ]
    valid = 0
    for form in forms:
        asked = {"max_tokens": 400, "n": 6, "seed": 3, "temperature": 1.3} | form
        if streamed:
            chunks = stream(server, roomy["plain"], **asked)
            reasons = {c["index"]: c["finish_reason"] for chunk in chunks for c in chunk["choices"]}
            answers = [(text_of(chunks, index), reasons[index]) for index in range(6)]
        else:
            choices = server.chat(roomy["plain"], "hello", **asked).json()["choices"]
            answers = [(choice["message"]["content"], choice["finish_reason"]) for choice in choices]
        for text, reason in answers:
            assert reason in ("stop", "length")
            if reason == "stop":
                jsonschema.validate(json.loads(text), SCHEMA if form is not forms[2] else {"type": "object"})
                valid += 1
    assert valid >= 8


@pytest.mark.parametrize("template", ["plain", "blocks"])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_call_that_is_required_is_valid(server, roomy, template, streamed):
    named = {"type": "function", "function": {"name": "file_note"}}
    names = set()
    for choice, tokens in (("required", 400), (named, 300)):
        asked = {"tools": TOOLS, "tool_choice": choice, "max_tokens": tokens, "n": 3, "seed": 1}
        if streamed:
            chunks = [c for chunk in stream(server, roomy[template], **asked) for c in chunk["choices"]]
            cut = {c["index"] for c in chunks if c["finish_reason"] == "length"}
            assert not any(c["delta"].get("content") for c in chunks if c["index"] not in cut)
            answers = [
                (
                    [call for c in chunks if c["index"] == index for call in c["delta"].get("tool_calls", ())],
                    [c["finish_reason"] for c in chunks if c["index"] == index][-1],
                )
                for index in range(3)
            ]
        else:
            choices = server.chat(roomy[template], "hello", **asked).json()["choices"]
            answers = [(one["message"].get("tool_calls", []), one["finish_reason"]) for one in choices]
        for calls, reason in answers:
            assert reason in ("tool_calls", "length")
            assert bool(calls) == (reason == "tool_calls")
            for call in calls:
                function = call["function"]
                schema = SCHEMA if function["name"] == "file_note" else {"type": "object", "maxProperties": 0}
                jsonschema.validate(json.loads(function["arguments"]), schema)
                names.add((choice if choice == "required" else "named", function["name"]))
    assert ("named", "file_note") in names and ("named", "now") not in names


def test_an_earlier_call_and_its_result_reach_the_model(server, roomy):
    """And tools that may not be called are not shown to it."""
    messages = [
        {"role": "user", "content": "File it."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "now", "arguments": '{"id": 7}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "noon"},
    ]

    def prompt_tokens(template: str, **change) -> int:
        body = {"model": roomy[template], "messages": messages, "max_tokens": 1} | change
        answer = server.client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["usage"]["prompt_tokens"]

    for template in roomy:
        all_told = prompt_tokens(template)
        assert (
            prompt_tokens(template, messages=messages[:1]) < prompt_tokens(template, messages=messages[:2]) < all_told
        )
        assert prompt_tokens(template, tools=TOOLS) > all_told + 100
        assert prompt_tokens(template, tools=TOOLS, tool_choice="none") == all_told


def test_the_official_client_streams_calls_tools_and_hears_of_faults(server, shelf, roomy):
    with (
        httpx.Client(trust_env=False, verify=False) as http,
        openai.OpenAI(base_url=f"{server.address}/v1", api_key=TOKEN, http_client=http, max_retries=0) as client,
    ):
        ask = client.chat.completions.create
        messages = [{"role": "user", "content": PROMPTS[0]}]
        whole = ask(model=shelf.base, messages=messages, temperature=0, max_tokens=9)
        events = ask(
            model=shelf.base, messages=messages, temperature=0, max_tokens=9, stream=True,
            stream_options={"include_usage": True},
        )  # fmt: skip
        chunks = list(events)
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert text == whole.choices[0].message.content == shelf.continues(shelf.base, PROMPTS[0], 9)
        assert chunks[-1].usage == whole.usage
        called = ask(model=roomy["plain"], messages=messages, tools=TOOLS[1:], tool_choice="required", max_tokens=400)
        [call, *_] = called.choices[0].message.tool_calls
        assert (call.function.name, call.function.arguments) == ("now", "{}")
        with pytest.raises(openai.BadRequestError) as refused:
            ask(model=shelf.base, messages=messages, presence_penalty=1)
        assert refused.value.param == "presence_penalty"
        with pytest.raises(openai.NotFoundError):
            ask(model="0" * 64, messages=messages, stream=True)


def test_a_short_chat_is_answered_while_long_ones_go_on(server, roomy):
    long = {"max_tokens": 600, "logit_bias": ENDLESS, "n": 3}
    with ThreadPoolExecutor(2) as callers:
        others = [callers.submit(server.chat, roomy["plain"], "x", **long) for _ in range(2)]
        while server.client.get("/readyz").json()["answering"] < 6:
            assert not any(other.done() for other in others)
        for model in roomy.values():  # in one's generation, and beside it
            assert server.chat(model, "hello", max_tokens=3).status_code == 200
        assert not any(other.done() for other in others)
        assert [other.result().json()["usage"]["completion_tokens"] for other in others] == [1800, 1800]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        ({"structured_outputs": {"json": {"not": {}}}}, "structured_outputs.json"),
        ({"structured_outputs": {"json": {"type": "object", "x-guidance": {}}}}, "structured_outputs.json"),
        ({"structured_outputs": {"json": {"minProperties": 2}}}, "structured_outputs.json"),
        ({"structured_outputs": {"regex": "a*"}}, "structured_outputs.regex"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": ["a", "a"]}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": ["a"], "json_object": True}}, "structured_outputs"),
        ({"structured_outputs": {"choice": ["a", "b"]}, "logprobs": True}, "logprobs"),
        ({"structured_outputs": {"choice": ["a", "b"]}, "max_tokens": 1}, "max_tokens"),
        ({"response_format": {"type": "json_object"}, "stop": "}"}, "stop"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"tools": [*TOOLS, TOOLS[0]]}, "tools[2]"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0]"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": "required", "response_format": {"type": "json_object"}}, "tool_choice"),
        (
            {
                "tools": [
                    {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"not": {}}}}}}
                ],
                "tool_choice": "required",
            },
            "tools",
        ),
    ],
)
def test_a_form_that_cannot_be_kept_is_refused_by_name(server, shelf, change, field):
    error = server.chat(shelf.base, "hello", **change)
    assert error.status_code == 400, error.text
    assert error.json()["error"]["param"] == field
