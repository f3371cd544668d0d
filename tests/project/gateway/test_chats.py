"""OpenAI's clients talk to the gateway's process, over real sockets, and every answer is a decision."""

import base64
import datetime as dt
import hashlib
import http.client
import json
import threading
from decimal import Decimal

import httpx
import openai
import pytest
from django.db import connection
from django.utils import timezone

from decisions.agents.revising import revise_agent
from decisions.agents.services import AgentSetup, create_agent
from decisions.models import Decision
from models_registry.calls.records import close_abandoned
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from models_registry.models import AliasName, Backend, Call, Exposure, FailedRequest
from models_registry.versions.services import move_alias, store_artifact
from tests.project.gateway.conftest import BACKEND_KEY
from tools.model_server import running_model_server
from workspaces.access.services import create_api_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("gateway")]
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How do I get to Oslo?"}]
SAYS = "Take the early train to Oslo"
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}},
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"place": "Oslo"}'}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "trip", "schema": {"type": "object"}}}


def chat(model="helper", **fields):
    return {"model": model, "messages": MESSAGES} | fields


def in_thread(look):
    """`look` with a connection of its own."""
    found = []

    def run():
        try:
            found.append(look())
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    return found[0]


def wait_until(is_so):
    for _ in range(1000):
        if is_so():
            return
        threading.Event().wait(0.01)
    raise AssertionError(list(Call.objects.values_list("state", "error")))


class TestAWholeAnswer:
    def test_is_the_model_s_and_recorded_with_its_call(self, client, helper):
        agent, version, server = helper
        answered = client.chat.completions.with_raw_response.create(
            **chat(user="ann", temperature=0.5), extra_headers={"X-Reckoner-Episode": "trip"}
        )
        told = answered.parse()
        assert (told.choices[0].message.content, told.choices[0].finish_reason) == (SAYS, "stop")
        assert (told.model, told.usage.total_tokens) == ("helper:1", 23)
        decision = Decision.objects.get()
        assert told.id == f"chatcmpl-{decision.id.hex}"
        assert answered.headers["x-reckoner-decision-id"] == str(decision.id)
        assert told.reckoner == {
            "decision_id": str(decision.id), "agent": "helper", "model_version": "helper:1", "variant": None,
            "assignment_probability": None, "fallback": False, "propensity": None, "cached": False,
        }  # fmt: skip
        assert decision.state == {"input": "How do I get to Oslo?", "messages": MESSAGES}
        assert (decision.action, decision.completion, decision.unit, decision.temperature) == (SAYS, SAYS, "ann", 0.5)
        assert (decision.propensity, decision.model_version, decision.agent_version) == (
            None, version, agent.versions.first(),
        )  # fmt: skip
        assert (decision.episode.external_id, float(decision.cost)) == ("trip", pytest.approx(50e-6))
        call = Call.objects.get()
        assert (call.id, call.kind, call.state, call.served, call.backend) == (
            decision.id, "chat", "answered", version, Backend.objects.get(),
        )  # fmt: skip
        assert call.opened_at <= call.first_byte_at <= call.closed_at
        asked = server.asked[0]
        assert (asked["model"], asked["messages"], asked["max_tokens"]) == ("gpt", MESSAGES, 99)
        assert "user" not in asked

    def test_is_given_under_the_agent_s_system_prompt_before_the_client_s_own(self, client, by, helper):
        agent, _, server = helper
        revise_agent(by=by, agent=agent, expected=1, changes={"system_prompt": "You plan journeys."})
        client.chat.completions.create(**chat())
        client.chat.completions.create(**chat(messages=MESSAGES[1:]))
        client.responses.create(model="helper", input="How do I get to Oslo?", instructions="Be brief.")
        both = {"role": "system", "content": "You plan journeys.\n\nBe brief."}
        alone = {"role": "system", "content": "You plan journeys."}
        assert [one["messages"] for one in server.asked] == [[said, MESSAGES[1]] for said in (both, alone, both)]
        states = [row.state["messages"] for row in Decision.objects.order_by("id")]
        assert states == [MESSAGES, MESSAGES[1:], MESSAGES]  # what the client said: the version has the rest
        assert {row.agent_version.number for row in Decision.objects.all()} == {2}

    def test_may_be_json_of_a_schema(self, client, helper):
        helper[2].pick = '{"to": "Oslo"}'
        told = client.chat.completions.create(**chat(response_format=SCHEMA, max_tokens=7))
        assert json.loads(told.choices[0].message.content) == {"to": "Oslo"}
        [asked] = helper[2].asked
        assert (asked["response_format"], asked["max_tokens"]) == (SCHEMA, 7)
        assert Decision.objects.get().parameters == {"max_tokens": 7}
        assert Decision.objects.get().state["response_format"] == SCHEMA

    def test_of_an_agent_of_tool_calls_is_its_calls(self, client, chatting, deploy, serve):
        server = serve()
        server.message = {"content": None, "tool_calls": [CALL]}
        deploy(chatting("planner", "tool_calls"), "gpt", server.url)
        told = client.chat.completions.create(**chat("planner", tools=[WEATHER], tool_choice="required"))
        [call] = told.choices[0].message.tool_calls
        assert (call.id, call.function.name, call.function.arguments) == ("call_1", "weather", '{"place": "Oslo"}')
        decision = Decision.objects.get()
        assert decision.action == [{"name": "weather", "arguments": {"place": "Oslo"}, "id": "call_1"}]
        assert (decision.options, decision.completion) == (["weather"], None)
        assert decision.state["tools"] == [WEATHER]
        assert (server.asked[0]["tools"], server.asked[0]["tool_choice"]) == ([WEATHER], "required")
        server.message = {"content": "It rains."}
        results = [*MESSAGES, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "content": "rain"}]
        told = client.chat.completions.create(**chat("planner", tools=[WEATHER], messages=results))
        newest = Decision.objects.order_by("-id").first()
        assert [newest.action, newest.completion, told.choices[0].message.content] == ["It rains."] * 3

    @pytest.mark.parametrize("stream", [False, True])
    def test_of_an_agent_of_texts_may_be_calls_and_words_beside_them_stay(self, ask, helper, stream):
        """So pydantic-ai and instructor ask for structured output by default."""
        helper[2].message = {"content": "Let me look.", "tool_calls": [CALL]}
        answer = ask.post("/chat/completions", json=chat(tools=[WEATHER], stream=stream))
        assert answer.status_code == 200 and '"weather"' in answer.text
        decision = Decision.objects.get()
        assert decision.action == [{"name": "weather", "arguments": {"place": "Oslo"}, "id": "call_1"}]
        assert (decision.completion, decision.options) == ("Let me look.", ["weather"])
        assert helper[2].asked[0]["tools"] == [WEATHER]

    def test_of_a_new_agent_has_no_limit(self, ask, by, deploy, serve):
        server = serve()
        setup = AgentSetup("{{ input }}", action_space="text")
        deploy(create_agent(by=by, slug="free", name="Free", setup=setup), "gpt", server.url)
        assert ask.post("/chat/completions", json=chat("free")).status_code == 200
        assert ask.post("/responses", json={"model": "free", "input": "Hi"}).status_code == 200
        for asked in server.asked:
            assert not {"max_tokens", "max_completion_tokens", "max_prompt_tokens"} & set(asked)

    def test_keeps_what_the_request_said_of_how_to_answer(self, client, ask, helper):
        sent = {"seed": 7, "top_p": 0.5, "metadata": {"ticket": "T-1"}, "parallel_tool_calls": False}
        told = client.chat.completions.create(**chat(**sent, tools=[WEATHER], tool_choice="auto", user="ann"))
        decision = Decision.objects.get()
        assert decision.parameters == sent | {"tool_choice": "auto"}
        assert (decision.finish_reason, told.choices[0].finish_reason) == ("stop", "stop")
        assert "metadata" not in helper[2].asked[0]
        asked = {"model": "helper", "input": "Hi", "max_output_tokens": 9, "metadata": {"ticket": "T-2"}}
        assert ask.post("/responses", json=asked).status_code == 200
        newest = Decision.objects.order_by("-id").first()
        assert newest.parameters == {"max_tokens": 9, "metadata": {"ticket": "T-2"}}

    @pytest.mark.parametrize("path", ["/chat/completions", "/responses"])
    def test_may_be_about_a_photo_which_the_ledger_names_and_does_not_hold(self, ask, helper, path):
        photo = bytes(range(256)) * 6000
        url = f"data:image/png;base64,{base64.b64encode(photo).decode()}"
        picture = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
        said = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, picture]}
        body = chat(messages=[said])
        if path == "/responses":
            parts = [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": url, "detail": "low"},
            ]
            body = {"model": "helper", "input": [{"role": "user", "content": parts}]}
        assert ask.post(path, json=body).status_code == 200
        assert helper[2].asked[0]["messages"] == [said]
        about = {"sha256": hashlib.sha256(photo).hexdigest(), "bytes": len(photo), "media_type": "image/png"}
        [kept] = Decision.objects.get().state["messages"]
        assert kept["content"][1] == {"type": "image_url", "image_url": {"detail": "low"} | about}
        assert Decision.objects.get().state["input"].startswith("What is this?")


class TestTheModels:
    def test_are_the_agents_that_chat_and_their_versions_with_an_alias(self, client, helper, agent, chatting):
        chatting("unserved")
        assert [model.id for model in client.models.list()] == ["helper", "helper@champion"]
        for pinned in ("helper:1", "models:/helper/1", "models:/helper@champion"):
            assert client.models.retrieve(pinned).owned_by == "acme"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("helper:2")

    def test_a_pinned_version_answers_without_an_experiment_or_a_stand_in(self, client, by, helper, deploy, serve):
        agent, champion, first = helper
        other = serve()
        other.pick = "Walk."
        deploy(agent, "new", other.url)
        told = client.chat.completions.create(**chat("helper:2"))
        assert (told.model, told.choices[0].message.content) == ("helper:2", "Walk.")
        move_alias(by=by, version=champion, name=AliasName.FALLBACK)
        other.stop()
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.create(**chat("helper:2"))
        assert first.asked == []


REFUSED = [
    (chat("nobody"), 404, "model", "model_not_found", "no model 'nobody'"),
    (chat("helper:9"), 404, "model", "model_not_found", "no version 9"),
    (chat("unserved"), 404, "model", "no_champion", "can answer yet"),
    (chat("filer"), 400, "model", "invalid_input", "POST /api/v1/agents/filer/decide"),
    (chat(n=2), 400, "n", "invalid_input", "an answer is one decision"),
    (chat(messages=[]), 400, "messages", "invalid_input", "length >= 1"),
    (chat(temperature=3), 400, "temperature", "invalid_input", "<= 2"),
    (chat(stream_options={"include_usage": True}), 400, "stream_options", "invalid_input", "belongs to a stream"),
    ({"model": "helper"}, 400, "messages", "invalid_input", "is missing"),
]


def test_what_is_wrong_is_refused_in_openai_s_shape_and_nothing_is_kept(ask, client, helper, agent, chatting, by):
    chatting("unserved")
    for body, status, param, code, says in REFUSED:
        answer = ask.post("/chat/completions", json=body)
        error = answer.json()["error"]
        assert (answer.status_code, error["param"], error["code"]) == (status, param, code), body
        assert says in error["message"]
        assert error["type"] == "invalid_request_error"
    weak = create_api_key(by=by, name="weak", scopes=["feedback:write"]).token
    for token, status, kind in ((weak, 403, "permission_error"), ("x.y", 401, "authentication_error")):
        answer = ask.post("/chat/completions", json=chat(), headers={"Authorization": f"Bearer {token}"})
        assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)
    assert ask.post("/chat/completions", content=b"{").status_code == 400
    assert ask.post("/chat/completions", content=b" " * 3_100_000).status_code == 413
    wordy = chat(messages=[{"role": "user", "content": "x" * 1_100_000}])
    assert ask.post("/chat/completions", json=wordy).status_code == 413
    assert ask.get("/nothing").json()["error"]["code"] == "not_found"
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="x.y").models.list()
    assert (Call.objects.count(), Decision.objects.count(), helper[2].asked) == (0, 0, [])
    assert client.chat.completions.create(**chat()).choices[0].message.content == SAYS


def test_what_the_model_s_server_refuses_is_said_to_the_client_and_the_call_has_failed(client, helper):
    helper[2].answers.append((400, {"error": {"message": "too long", "param": "messages", "code": "too_long"}}))
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**chat(stream=True))
    assert (refused.value.param, refused.value.code) == ("messages", "too_long")
    call = Call.objects.get()
    assert (call.state, call.error, Decision.objects.count()) == ("failed", "too long", 0)


class TestAStream:
    def test_has_the_whole_answer_s_words_and_ends_after_the_commit(self, client, ask, helper):
        server = helper[2]
        seen = []
        server.after = lambda number: seen.append(
            in_thread(lambda: (Call.objects.get().state, Decision.objects.count()))
        )
        with ask.stream("POST", "/chat/completions", json=chat(stream=True)) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            events = []
            for line in answer.iter_lines():
                events += [line] if line else []
                if line == "data: [DONE]":
                    [state] = Call.objects.values_list("state", flat=True)
                    assert (state, Decision.objects.get().action) == ("answered", SAYS)
        assert seen == [("open", 0)] * len(SAYS.split())
        assert events[-1] == "data: [DONE]"
        chunks = [json.loads(line[6:]) for line in events[:-1]]
        assert {chunk["id"] for chunk in chunks} == {f"chatcmpl-{Decision.objects.get().id.hex}"}
        assert {(chunk["model"], "usage" in chunk) for chunk in chunks} == {("helper:1", False)}
        server.after = None
        told = list(client.chat.completions.create(**chat(stream=True, stream_options={"include_usage": True})))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in told if chunk.choices) == SAYS
        assert (told[-1].usage.completion_tokens, told[-1].reckoner["model_version"]) == (3, "helper:1")

    def test_may_call_tools(self, client, chatting, deploy, serve):
        server = serve()
        server.message = {"content": None, "tool_calls": [CALL, CALL | {"id": "call_2"}]}
        deploy(chatting("planner", "tool_calls"), "gpt", server.url)
        told = list(client.chat.completions.create(**chat("planner", tools=[WEATHER], stream=True)))
        assert told[-1].choices[0].finish_reason == "tool_calls"
        made = {"name": "weather", "arguments": {"place": "Oslo"}}
        assert Decision.objects.get().action == [made | {"id": "call_1"}, made | {"id": "call_2"}]

    def test_that_its_client_leaves_is_recorded_with_what_was_generated(self, ask, helper):
        _, version, server = helper
        server.after = lambda number: server.left.wait(0.05) if number >= 3 else None
        server.pick = "one two three " + "more " * 100
        with ask.stream("POST", "/chat/completions", json=chat(stream=True)) as answer:
            for line in answer.iter_lines():
                if "three" in line:
                    break
        wait_until(lambda: Call.objects.filter(state="left").exists())
        call = Call.objects.get()
        assert call.served == version and call.closed_at
        decision = Decision.objects.get()
        assert decision.id == call.id
        assert decision.action.startswith("one two three") and len(decision.action) < 200
        assert server.left.wait(10)
        assert (decision.finish_reason, decision.tokens_estimated, decision.propensity) == ("abandoned", True, None)
        assert decision.tokens_in > 0 and decision.tokens_out == max(1, round(len(decision.action) / 4))
        assert decision.cost == pytest.approx(Decimal(decision.tokens_in + 10 * decision.tokens_out) / 10**6)
        assert (call.tokens_in, call.tokens_out, call.cost) == (
            decision.tokens_in, decision.tokens_out, decision.cost,
        )  # fmt: skip

    def test_that_is_left_is_counted_as_the_server_s_last_answer_was(self, client, ask, helper):
        server = helper[2]
        client.chat.completions.create(**chat())
        whole = Decision.objects.get()
        server.after = lambda number: server.left.wait(0.05) if number >= 3 else None
        server.pick = "one two three " + "more " * 100
        with ask.stream("POST", "/chat/completions", json=chat(stream=True)) as answer:
            next(line for line in answer.iter_lines() if "three" in line)
        wait_until(lambda: Call.objects.filter(state="left").exists())
        left = Decision.objects.order_by("-id").first()
        assert left.tokens_estimated and not whole.tokens_estimated
        assert left.tokens_in == whole.tokens_in == 20
        assert left.tokens_out == round(len(left.action) / (len(SAYS) / 3))

    def test_whose_server_breaks_off_ends_with_an_error_and_what_it_said_stays(self, ask, helper):
        server = helper[2]
        server.after = lambda number: 1 / 0 if number == 2 else None
        with ask.stream("POST", "/chat/completions", json=chat(stream=True)) as answer:
            events = [line for line in answer.iter_lines() if line]
        error = json.loads(events[-1][6:])["error"]
        assert (error["type"], error["code"]) == ("server_error", "backend_unavailable")
        assert Call.objects.values_list("state", "backend__name").get() == ("failed", "gpt")
        decision = Decision.objects.get()
        assert decision.action == " ".join(SAYS.split()[:2])
        assert (decision.finish_reason, decision.tokens_estimated) == ("cut", True)
        assert decision.id == Call.objects.get().id and "broke off" in Call.objects.get().error


def test_a_client_that_leaves_before_a_word_leaves_a_call_and_no_decision(gateway, key, helper):
    helper[2].held.clear()
    for stream in (False, True):
        line = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
        asked = json.dumps(chat(stream=stream))
        line.request("POST", "/v1/chat/completions", asked, {"Authorization": f"Bearer {key}"})
        wait_until(lambda: Call.objects.filter(state="open").exists())
        line.close()
        wait_until(lambda: not Call.objects.filter(state="open").exists())
    assert (list(Call.objects.values_list("state", flat=True)), Decision.objects.count()) == (["left"] * 2, 0)


def test_one_chat_more_than_the_limit_is_refused_and_the_next_is_not(gateway, ask, key, helper):
    server, lines = helper[2], []
    server.held.clear()
    for _ in range(2):
        line = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
        line.request("POST", "/v1/chat/completions", json.dumps(chat()), {"Authorization": f"Bearer {key}"})
        lines.append(line)
    wait_until(lambda: Call.objects.filter(state="open").count() == 2)
    refused = ask.post("/chat/completions", json=chat())
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
    assert refused.headers["retry-after"] == "1"
    assert "2 chats" in refused.json()["error"]["message"]
    assert Call.objects.count() == 2
    server.held.set()
    for line in lines:
        with line.getresponse() as answer:
            assert answer.status == 200
            answer.read()
        line.close()
    assert ask.post("/chat/completions", json=chat()).status_code == 200
    assert Decision.objects.count() == 3


class TestTheNextServer:
    def test_answers_where_the_first_is_killed_or_silent(self, client, helper, deploy, serve, silent):
        agent, version, first = helper
        spare = serve()
        spare.pick = "from the spare one"
        deploy(agent, "spare", spare.url, version=version)
        first.stop()
        for fields in ({}, {"stream": True}):
            told = client.chat.completions.create(**chat(**fields))
            words = [c.choices[0].delta.content for c in told] if fields else [told.choices[0].message.content]
            assert "".join(word or "" for word in words) == "from the spare one"
        assert set(Call.objects.values_list("state", "assigned", "served", "backend__name")) == {
            ("answered", version.id, version.id, "spare")
        }
        assert "gpt does not answer" in Call.objects.first().fallback
        Backend.objects.filter(name="gpt").update(url=silent, name="mute")
        told = client.chat.completions.create(**chat())
        assert told.choices[0].message.content == "from the spare one"
        assert "mute did not answer within 0.3 s" in Call.objects.order_by("-id").first().fallback

    def test_is_not_asked_where_the_first_is_slow_and_lives(self, client, helper, deploy, serve):
        agent, version, first = helper
        deploy(agent, "spare", serve().url, version=version)
        first.held.clear()
        threading.Timer(0.8, first.held.set).start()
        assert client.chat.completions.create(**chat()).choices[0].message.content == SAYS
        assert Call.objects.get().fallback == ""

    def test_of_another_version_is_served_not_assigned(self, client, by, helper, deploy, serve):
        agent, champion, first = helper
        spare = serve()
        other = deploy(agent, "llama", spare.url)
        move_alias(by=by, version=other, name=AliasName.FALLBACK)
        first.stop()
        told = client.chat.completions.create(**chat())
        assert (told.model, told.reckoner["fallback"]) == ("helper:2", True)
        call = Call.objects.get()
        assert (call.assigned, call.served, Decision.objects.get().model_version) == (champion, other, other)
        spare.stop()
        with pytest.raises(openai.InternalServerError) as refused:
            client.chat.completions.create(**chat())
        assert refused.value.status_code == 503
        failed = Call.objects.get(state="failed")
        assert "gpt does not answer" in failed.error or "gpt is not asked" in failed.error
        assert "llama does not answer" in failed.error and failed.backend.name == "llama"
        assert Decision.objects.count() == 1


def test_our_own_model_server_answers_and_what_it_could_not_say_otherwise_has_a_propensity(
    client, chatting, deploy, tiny_run, store, by, gateway, settings
):
    model = tiny_run / "attempts" / "1" / "model"
    digest = store_artifact(workspace=by.workspace, folder=model, kind="model", meta={"made": "for chats"}).digest
    short = {"messages": [{"role": "user", "content": "flight hotel"}]}
    folder = {"enum": ["travel", "health"]}
    schema = {"type": "object", "properties": {"folder": folder}, "required": ["folder"], "additionalProperties": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "filed", "schema": schema}}
    with running_model_server(store, BACKEND_KEY, gateway.model_server_port) as url:
        settings.BACKEND_URLS, settings.BACKEND_KEYS = [url], [f"TINY_API_KEY={url}"]
        how = {"kind": "model_server", "key_variable": "TINY_API_KEY", "remote_name": digest}
        deploy(chatting(), "tiny", url, **how)
        whole = client.chat.completions.create(**chat(**short, temperature=0, max_tokens=6))
        pieces = list(client.chat.completions.create(**chat(**short, temperature=0, max_tokens=6, stream=True)))
        assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == whole.choices[0].message.content
        sampled = client.chat.completions.create(**chat(**short, temperature=1, max_tokens=6))
        filed = client.chat.completions.create(**chat(**short, response_format=wanted, max_tokens=60))
        assert json.loads(filed.choices[0].message.content)["folder"] in {"travel", "health"}
        assert (whole.reckoner["propensity"], sampled.reckoner["propensity"]) == (1.0, None)
    rows = Decision.objects.order_by("id")
    assert [(row.propensity, bool(row.token_ids)) for row in rows] == [(1.0, True)] * 2 + [(None, True)] * 2
    assert set(Call.objects.values_list("state", flat=True)) == {"answered"}


def test_an_experiment_assigns_by_the_unit_and_counts_what_failed(client, by, helper, deploy, serve):
    agent, _, first = helper
    second = serve()
    second.models = ["tuned"]
    treatment = deploy(agent, "tuned", second.url)
    start_experiment(by=by, treatment=treatment, plan=ExperimentPlan(), reason="a better one")
    names = [f"user-{number}" for number in range(8)]
    served = {}
    for name in [*names, *names]:
        told = client.chat.completions.create(**chat(user=name))
        served.setdefault(name, set()).add((told.model, told.reckoner["variant"]))
    assert all(len(found) == 1 for found in served.values())
    assert {model for [(model, _)] in served.values()} == {"helper:1", "helper:2"}
    assert dict(Exposure.objects.values_list("unit", "arm")) == {n: arm for n, [(_, arm)] in served.items()}
    assert Decision.objects.filter(exposure=None).count() == 0
    first.stop()
    second.stop()
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(**chat(user=names[0]))
    assert FailedRequest.objects.get().exposure.unit == names[0]


@pytest.mark.slow
def test_a_killed_gateway_leaves_its_call_open_which_the_sweeper_finds(gateway, ask, helper):
    helper[2].after = lambda number: helper[2].left.wait(0.05)
    helper[2].pick = "word " * 200
    with pytest.raises(httpx.TransportError), ask.stream("POST", "/chat/completions", json=chat(stream=True)) as answer:
        for number, _ in enumerate(answer.iter_lines()):
            if number == 2:
                gateway.kill()
    assert (Call.objects.get().state, Decision.objects.count()) == ("open", 0)
    soon = timezone.now() + dt.timedelta(hours=1)
    assert close_abandoned(older_than=dt.timedelta(seconds=900), now=soon) == 1
    assert Call.objects.get().state == "abandoned"
