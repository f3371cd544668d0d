"""The Responses API, by OpenAI's clients in Python and Node, and chats by the one in Node."""

import json
import subprocess

import openai
import pytest

from decisions.models import Decision
from models_registry.models import Call
from tests.node import fetch_package
from workspaces.access.actors import system
from workspaces.access.services import KeyLimits, create_api_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("gateway")]
SAYS = "Take the early train to Oslo"
WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}, "strict": False}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"place": "Oslo"}'}}
NODE_CLIENT = "7.57.0"


@pytest.fixture
def planner(chatting, deploy, serve):
    """An agent of tool calls on a server that calls one after some words."""
    server = serve()
    server.message = {"content": "Let me see.", "tool_calls": [CALL]}
    deploy(chatting("planner", "tool_calls"), "planner", server.url)
    return server


def test_a_response_is_a_chat_that_is_recorded_as_one(client, helper):
    told = client.responses.create(
        model="helper", instructions="Be brief.", input="How do I get to Oslo?", max_output_tokens=40, user="ann",
        text={"format": {"type": "json_schema", "name": "trip", "schema": {"type": "object"}}},
    )  # fmt: skip
    assert (told.output_text, told.status, told.model, told.usage.total_tokens) == (SAYS, "completed", "helper:1", 23)
    decision = Decision.objects.get()
    assert told.id == f"resp_{decision.id.hex}" and told.reckoner["decision_id"] == str(decision.id)
    assert (decision.action, decision.unit, Call.objects.get().kind) == (SAYS, "ann", "response")
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How do I get to Oslo?"}]
    [asked] = helper[2].asked
    assert (asked["messages"], asked["max_tokens"]) == (messages, 40)
    assert asked["response_format"]["json_schema"] == {"name": "trip", "schema": {"type": "object"}}
    assert decision.state["messages"] == messages


def test_a_streamed_response_is_what_the_client_s_own_helper_puts_together(client, helper, planner):
    with client.responses.stream(model="helper", input="How?") as stream:
        kinds = [event.type for event in stream]
        assert stream.get_final_response().output_text == SAYS
    assert kinds[:4] == [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
    ]  # fmt: skip
    assert kinds[-4:] == [
        "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed",
    ]  # fmt: skip
    with client.responses.stream(model="planner", input="How?", tools=[WEATHER]) as stream:
        list(stream)
        words, call = stream.get_final_response().output
    assert words.content[0].text == "Let me see."
    assert (call.type, call.name, call.arguments, call.call_id) == (
        "function_call",
        "weather",
        '{"place": "Oslo"}',
        "call_1",
    )
    newest = Decision.objects.order_by("-id").first()
    made = {"name": "weather", "arguments": {"place": "Oslo"}, "id": "call_1"}
    assert (newest.action, newest.completion) == ([made], "Let me see.")


def test_items_of_a_conversation_become_messages(client, planner):
    told = client.responses.create(
        model="planner",
        input=[
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "Rain "}, {"type": "input_text", "text": "there?"}],
            },
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "dry"},
        ],
        tools=[WEATHER],
        tool_choice={"type": "function", "name": "weather"},
    )
    assert [item.type for item in told.output] == ["message", "function_call"]
    [asked] = planner.asked
    function = {"name": "weather", "arguments": "{}"}
    assert asked["messages"] == [
        {"role": "user", "content": "Rain there?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": "dry"},
    ]
    assert asked["tool_choice"] == {"type": "function", "function": {"name": "weather"}}


def test_items_of_earlier_answers_may_be_named_by_their_ids(client, by, helper, planner, other_workspace):
    asked = {"role": "user", "content": "Rain there?"}
    words, call = client.responses.create(model="planner", input=[asked], tools=[WEATHER]).output
    named = [{"type": "item_reference", "id": item.id} for item in (words, call)]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "dry"}
    client.responses.create(model="planner", input=[asked, *named, result], tools=[WEATHER])
    function = {"name": "weather", "arguments": '{"place":"Oslo"}'}
    messages = [
        asked,
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "dry"},
    ]
    assert planner.asked[1]["messages"] == messages
    assert Decision.objects.order_by("-id").first().state["messages"] == messages
    elsewhere = create_api_key(by=system(other_workspace), name="chats", scopes=["route:read"]).token
    other_agents = create_api_key(
        by=by, name="limited", scopes=["route:read"], limits=KeyLimits(agents=("helper",))
    ).token
    fresh = words.id.removeprefix("msg_")[::-1]
    for token, model, item_id in (
        (elsewhere, "planner", words.id),
        (other_agents, "helper", words.id),
        (client.api_key, "planner", f"msg_{fresh}"),
        (client.api_key, "planner", "rs_1"),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            client.with_options(api_key=token).responses.create(
                model=model, input=[asked, {"type": "item_reference", "id": item_id}]
            )
        assert refused.value.param == "input[1].id"
    assert Decision.objects.count() == len(planner.asked) == 2


def test_what_a_response_would_need_a_memory_for_is_refused_by_name(client, helper):
    for fields, param in (
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].id"),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(**({"model": "helper", "input": "x"} | fields))
        assert refused.value.param == param
    assert (Call.objects.count(), helper[2].asked) == (0, [])


def test_an_answer_that_is_incomplete_says_why(ask, helper):
    for reason, told in (("length", "max_output_tokens"), ("content_filter", "content_filter")):
        choice = {"index": 0, "message": {"role": "assistant", "content": "Take"}, "finish_reason": reason}
        helper[2].answers.append((200, {"choices": [choice]}))
        response = ask.post("/responses", json={"model": "helper", "input": "How?"}).json()
        assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": told})


PROGRAM = """
import OpenAI from "openai";
const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: process.argv[3], maxRetries: 0 });
const messages = [{ role: "user", content: "How?" }];
const whole = await client.chat.completions.create({ model: "helper", messages });
let streamed = "";
for await (const chunk of await client.chat.completions.create({ model: "helper", messages, stream: true }))
  streamed += chunk.choices[0]?.delta?.content ?? "";
const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } }];
const called = await client.chat.completions.create({ model: "planner", messages, tools });
const response = await client.responses.create({ model: "helper", input: "How?" });
const final = await client.responses.stream({ model: "helper", input: "How?" }).finalResponse();
const models = [];
for await (const model of client.models.list()) models.push(model.id);
const refused = await client.chat.completions.create({ model: "nobody", messages }).catch((error) => error);
console.log(JSON.stringify({
  whole: whole.choices[0].message.content, streamed, call: called.choices[0].message.tool_calls[0].function,
  response: response.output_text, final: final.output_text, models,
  refused: [refused instanceof OpenAI.NotFoundError, refused.code, refused.param],
}));
"""


@pytest.mark.slow
def test_the_client_for_node_runs_unchanged(gateway, key, helper, planner, tmp_path):
    node, modules = fetch_package("openai", NODE_CLIENT)
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "program.mjs").write_text(PROGRAM)
    command = [node, str(tmp_path / "program.mjs"), gateway.url, key]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "whole": SAYS, "streamed": SAYS, "response": SAYS, "final": SAYS, "call": CALL["function"],
        "models": ["helper", "helper@champion", "planner", "planner@champion"],
        "refused": [True, "model_not_found", "model"],
    }  # fmt: skip
    assert Decision.objects.count() == 5
