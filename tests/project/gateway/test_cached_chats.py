"""Answers from the cache as OpenAI's clients get them: whole, streamed, with tools, and as responses."""

import pytest

from decisions.agents.caching import change_cache
from decisions.agents.chat_actions import without_ids
from decisions.models import Decision
from models_registry.models import Call
from tests.project.gateway.test_chats import CALL, SAYS, WEATHER, chat

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("gateway")]
CACHED = "x-reckoner-cached"


def test_an_answer_is_given_again_whole_streamed_and_as_a_response(client, ask, by, helper):
    agent, _, server = helper
    change_cache(by=by, agent=agent, seconds=60)
    greedy = chat(temperature=0)
    first = client.chat.completions.with_raw_response.create(**greedy)
    again = client.chat.completions.with_raw_response.create(**greedy)
    assert (first.headers.get(CACHED), again.headers.get(CACHED)) == (None, "true")
    told, same = first.parse(), again.parse()
    assert (same.choices[0].message.content, same.choices[0].finish_reason) == (SAYS, "stop")
    assert (same.usage, same.model) == (told.usage, told.model)
    assert same.id != told.id
    assert (told.reckoner["cached"], same.reckoner["cached"]) == (False, True)
    streamed = ask.post("/chat/completions", json=greedy | {"stream": True, "stream_options": {"include_usage": True}})
    assert streamed.headers[CACHED] == "true" and streamed.text.endswith("data: [DONE]\n\n")
    chunks = list(client.chat.completions.create(**greedy, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == SAYS
    assert (chunks[-2].choices[0].finish_reason, chunks[-1].usage) == ("stop", told.usage)
    response = client.responses.create(model="helper", input=greedy["messages"], temperature=0)
    assert (response.output_text, response.reckoner["cached"]) == (SAYS, True)
    assert len(server.asked) == 1
    assert Decision.objects.filter(action=SAYS).count() == 5
    assert sorted(Call.objects.values_list("cached", "state")) == [(False, "answered")] + [(True, "answered")] * 4
    anew = client.chat.completions.with_raw_response.create(**greedy, extra_headers={"Cache-Control": "no-cache"})
    assert (anew.headers.get(CACHED), len(server.asked)) == (None, 2)


def test_an_agent_answers_in_words_or_calls_again_as_it_did(client, by, helper):
    """Whatever its kind."""
    agent, _, server = helper
    change_cache(by=by, agent=agent, seconds=60)
    server.messages.extend([{"content": None, "tool_calls": [CALL]}, {"content": "It rains."}])
    for body in (chat(tools=[WEATHER], temperature=0), chat(tools=[WEATHER], temperature=0, max_tokens=50)):
        first, again = (client.chat.completions.create(**body).choices[0].message for _ in range(2))
        assert (first.content, len(first.tool_calls or ())) == (again.content, len(again.tool_calls or ()))
    assert len(server.asked) == 2


def test_calls_of_tools_are_given_again(client, by, chatting, deploy, serve):
    agent, server = chatting("planner", "tool_calls"), serve()
    server.message = {"content": None, "tool_calls": [CALL]}
    deploy(agent, "gpt", server.url)
    change_cache(by=by, agent=agent, seconds=60)
    asked = chat("planner", tools=[WEATHER], temperature=0)
    client.chat.completions.create(**asked)
    told = client.chat.completions.create(**asked)
    [call] = told.choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments, told.choices[0].finish_reason) == (
        "weather", '{"place":"Oslo"}', "tool_calls",
    )  # fmt: skip
    assert told.choices[0].message.content is None
    chunks = list(client.chat.completions.create(**asked, stream=True))
    assert chunks[0].choices[0].delta.tool_calls[0].function.arguments == '{"place":"Oslo"}'
    assert len(server.asked) == 1
    made = [call for decision in Decision.objects.all() for call in decision.action]
    assert [without_ids([call]) for call in made] == [[{"name": "weather", "arguments": {"place": "Oslo"}}]] * 3
    assert len({call["id"] for call in made}) == 3  # a conversation may hold the same answer twice
