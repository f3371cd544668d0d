"""Clients of OpenAI's protocol, unmodified, talk to the gateway, and the ledger has what they said and read: the table
in docs/gateway.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.openai_server import USAGE
from tests.project.gateway.clients.running import Client, Recorded, Run
from tests.project.gateway.clients.travel_model import BACK, CALL_ID, FAR, OUT, RAIN, TRIP

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("gateway")]
OF_THE_STATE = ("tools", "tool_choice", "response_format")
RunOf = Callable[[Client], Run]

OPENAI, RESPONSES = Client("openai_chat.py"), Client("openai_responses.py")
LANGCHAIN, LANGCHAIN_RESPONSES = Client("langchain_chat.py", "chats"), Client("langchain_chat.py", "responses")
LLAMAINDEX, LITELLM = Client("llamaindex_chat.py"), Client("litellm_chat.py")
INSTRUCTOR = Client("instructor_chat.py")
PYDANTIC_AI = Client("pydantic_ai_agent.py", "chats")
PYDANTIC_AI_RESPONSES = Client("pydantic_ai_agent.py", "responses")
SMOLAGENTS, DSPY, INSPECT = Client("smolagents_agent.py"), Client("dspy_program.py"), Client("inspect_task.py")
AGENTS = Client("openai_agents.py", "responses")
AGENTS_BY_CHATS = Client("openai_agents.py", "chat_completions")
NODE, NODE_RESPONSES = Client("openai_node.mjs", "chats"), Client("openai_node.mjs", "responses")
AI_SDK, AI_SDK_BY_CHATS = Client("ai_sdk.mjs", "responses"), Client("ai_sdk.mjs", "chats")
AI_SDK_COMPATIBLE = Client("ai_sdk.mjs", "compatible")
LANGCHAIN_JS = Client("langchain_js.mjs")
CLIENTS = [
    OPENAI, RESPONSES, LANGCHAIN, LANGCHAIN_RESPONSES, LLAMAINDEX, LITELLM, INSTRUCTOR, PYDANTIC_AI,
    PYDANTIC_AI_RESPONSES, SMOLAGENTS, AGENTS, AGENTS_BY_CHATS, DSPY, INSPECT, NODE, NODE_RESPONSES, AI_SDK,
    AI_SDK_BY_CHATS, AI_SDK_COMPATIBLE, LANGCHAIN_JS,
]  # fmt: skip


def of(*clients: Client) -> Any:
    """The test, once for each of the clients."""
    names = [client.program.partition(".")[0] + (f"-{client.api}" if client.api else "") for client in clients]
    return pytest.mark.parametrize("client", clients, ids=names)


def without(*clients: Client) -> list[Client]:
    return [client for client in CLIENTS if client not in clients]


def check_fields(recorded: list[Recorded]) -> None:
    """What every decision holds, whatever was said."""
    tokens = USAGE["prompt_tokens"], USAGE["completion_tokens"]
    for one in recorded:
        assert (one.unit, one.episode, one.version) == ("ann", "journey", "helper:1")
        assert (one.tokens, one.call) == (tokens, ("answered", *tokens))
        assert one.finish_reason == ("stop" if isinstance(one.action, str) else "tool_calls")
        assert one.messages == one.asked["messages"]
        assert [one.state.get(name) for name in OF_THE_STATE] == [one.asked.get(name) for name in OF_THE_STATE]


@of(*without(DSPY))
def test_two_turns_are_two_decisions_the_second_with_the_first_in_its_messages(run_of: RunOf, client: Client) -> None:
    run = run_of(client)
    assert run.result_of("turns") == [OUT, BACK]
    first, second = run.about("How do I get to Oslo?")
    check_fields([first, second])
    begun = [("system", "Be brief."), ("user", "How do I get to Oslo?")]
    assert first.talk == begun
    assert second.talk == [*begun, ("assistant", OUT), ("user", "And back?")]
    assert [(one.action, one.completion) for one in (first, second)] == [(OUT, OUT), (BACK, BACK)]
    assert second.state["input"] == "And back?"


def test_two_turns_of_dspy_are_in_its_own_words(run_of: RunOf) -> None:
    run = run_of(DSPY)
    assert run.result_of("turns") == [OUT, BACK]
    first, second = run.about("How do I get to Oslo?")
    check_fields([first, second])
    assert [role for role, _ in second.talk] == ["system", "user", "assistant", "user"]
    assert "Be brief." in second.talk[0][1] and "And back?" in second.talk[3][1]
    assert OUT in second.talk[2][1] and OUT in first.action and BACK in second.action


@of(*without(DSPY, INSTRUCTOR, SMOLAGENTS))
def test_a_tool_is_called_and_its_result_answered(run_of: RunOf, client: Client) -> None:
    run = run_of(client)
    assert run.result_of("tools") == RAIN
    called, answered = run.about("How is the weather in Oslo?")
    check_fields([called, answered])
    assert called.talk == [("user", "How is the weather in Oslo?")]
    assert called.action == [{"name": "weather", "arguments": {"place": "Oslo"}, "id": CALL_ID}]
    assert (called.options, called.completion) == (["weather"], None)
    _, call, result = answered.messages
    [told] = call["tool_calls"]
    assert (told["id"], told["function"]["name"]) == (CALL_ID, "weather")
    assert json.loads(told["function"]["arguments"]) == {"place": "Oslo"}
    assert (result["role"], result["tool_call_id"]) == ("tool", CALL_ID)
    assert answered.talk[2][1] == "rain in Oslo"
    assert (answered.action, answered.completion) == (RAIN, RAIN)


@of(AI_SDK, AI_SDK_BY_CHATS, AI_SDK_COMPATIBLE, AGENTS, AGENTS_BY_CHATS, LANGCHAIN, LANGCHAIN_RESPONSES)
def test_a_tool_may_be_called_in_a_stream(run_of: RunOf, client: Client) -> None:
    run = run_of(client)
    assert "".join(run.result_of("streamed_tools")) == RAIN
    called, answered = run.about("Watch the weather in Oslo.")
    check_fields([called, answered])
    assert called.asked["stream"] is answered.asked["stream"] is True
    assert called.action == [{"name": "weather", "arguments": {"place": "Oslo"}, "id": CALL_ID}]
    assert (answered.talk[-1], answered.action) == (("tool", "rain in Oslo"), RAIN)


def test_smolagents_calls_a_tool_says_its_result_as_the_user_and_answers_by_a_call(run_of: RunOf) -> None:
    run = run_of(SMOLAGENTS)
    assert run.result_of("tools") == RAIN
    called, answered = run.about("How is the weather in Oslo?")
    check_fields([called, answered])
    assert called.action == [{"name": "weather", "arguments": {"place": "Oslo"}, "id": CALL_ID}]
    assert called.options == ["weather", "final_answer"]
    assert [role for role, _ in answered.talk] == ["system", "user", "assistant", "user"]
    assert "rain in Oslo" in answered.talk[3][1]
    assert answered.action == [{"name": "final_answer", "arguments": {"answer": RAIN}, "id": CALL_ID}]


def test_dspy_calls_a_tool_in_words(run_of: RunOf) -> None:
    run = run_of(DSPY)
    assert run.result_of("tools") == RAIN
    recorded = run.about("How is the weather in Oslo?")
    called, *_, answered = recorded
    check_fields(recorded)
    assert (called.options, answered.options) == (None, None)
    assert "weather" in called.action and '{"place": "Oslo"}' in called.action
    assert "rain in Oslo" in answered.talk[-1][1] and RAIN in answered.action


@of(*without(INSTRUCTOR, PYDANTIC_AI, PYDANTIC_AI_RESPONSES, DSPY))
def test_a_typed_answer_is_json_of_its_schema(run_of: RunOf, client: Client) -> None:
    check_json(run_of(client), "typed", "Plan a trip to Oslo.")


def test_dspy_asks_for_json_in_words(run_of: RunOf) -> None:
    run = run_of(DSPY)
    assert run.result_of("typed") == TRIP
    [answered] = run.about("Plan a trip to Oslo.")
    check_fields([answered])
    assert json.dumps(TRIP) in answered.action


def test_instructor_asks_for_json_of_a_schema_where_it_is_told_to(run_of: RunOf) -> None:
    check_json(run_of(INSTRUCTOR), "typed_by_schema", "Plan a trip by its schema.")


def check_json(run: Run, part: str, question: str) -> None:
    assert run.result_of(part) == TRIP
    [answered] = run.about(question)
    check_fields([answered])
    assert json.loads(answered.action) == TRIP
    assert answered.state["response_format"]["type"] == "json_schema"


@of(INSTRUCTOR, PYDANTIC_AI, PYDANTIC_AI_RESPONSES)
def test_a_typed_answer_by_a_tool_is_its_call(run_of: RunOf, client: Client) -> None:
    run = run_of(client)
    assert run.result_of("typed") == TRIP
    [answered] = run.about("Plan a trip to Oslo.")
    check_fields([answered])
    tool = "Trip" if client == INSTRUCTOR else "final_result"
    assert answered.action == [{"name": tool, "arguments": TRIP, "id": CALL_ID}]
    assert answered.options == [tool]
    assert answered.state["tool_choice"]


@of(*without(INSTRUCTOR, INSPECT, DSPY))
def test_a_stream_is_read_in_pieces_and_recorded_whole(run_of: RunOf, client: Client) -> None:
    run = run_of(client)
    pieces = run.result_of("stream")
    assert len(pieces) > 1 and "".join(pieces) == FAR
    [answered] = run.about("Is Oslo far?")
    check_fields([answered])
    assert answered.asked["stream"] is True
    assert (answered.action, answered.completion) == (FAR, FAR)


def test_a_stream_of_dspy_s_is_read_in_pieces_and_recorded_whole(run_of: RunOf) -> None:
    run = run_of(DSPY)
    pieces = run.result_of("stream")
    assert len(pieces) > 1 and "".join(pieces) == FAR
    [answered] = run.about("Is Oslo far?")
    check_fields([answered])
    assert answered.asked["stream"] is True and FAR in answered.action


def test_instructor_reads_a_call_while_it_grows(run_of: RunOf) -> None:
    run = run_of(INSTRUCTOR)
    assert run.result_of("stream")[-1] == TRIP
    [answered] = run.about("piece by piece")
    check_fields([answered])
    assert answered.asked["stream"] is True
    assert answered.action == [{"name": "PartialTrip", "arguments": TRIP, "id": CALL_ID}]
