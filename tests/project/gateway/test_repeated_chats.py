"""Chats that are sent again with the same `Idempotency-Key`."""

import datetime as dt
import json
import threading

import pytest
from django.utils import timezone

from decisions.chats.repeating import decision_of
from decisions.erasure.erasing import erase_decisions
from decisions.models import Decision
from models_registry.models import Call
from tests.project.gateway.test_chats import CALL, SAYS, WEATHER, chat, wait_until
from workspaces.access.services import change_key_limits
from workspaces.models import ApiKey, KeptAnswer

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("gateway")]
KEY = {"Idempotency-Key": "ask-once"}
ASKED = [
    ("/chat/completions", chat()),
    ("/chat/completions", chat(stream=True, stream_options={"include_usage": True})),
    ("/responses", {"model": "helper", "input": "How?"}),
    ("/responses", {"model": "helper", "input": "How?", "stream": True}),
]


def pieces(text):
    """What a stream says in all, whatever its pieces: words, calls and the end."""
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    if "choices" not in events[0]:
        return events[-1]["response"]
    deltas = [one["choices"][0]["delta"] for one in events if one["choices"]]
    words = "".join(delta.get("content") or "" for delta in deltas)
    return {one["id"] for one in events}, words, events[-1]["usage"], events[-1]["reckoner"]


@pytest.mark.parametrize(("path", "body"), ASKED)
def test_the_first_s_decision_and_answer_come_again(path, body, ask, helper):
    first, again = (ask.post(path, json=body, headers=KEY) for _ in range(2))
    assert (first.status_code, again.status_code) == (200, 200)
    assert "idempotent-replayed" not in first.headers and again.headers["idempotent-replayed"] == "true"
    assert first.headers["x-reckoner-decision-id"] == again.headers["x-reckoner-decision-id"]
    if body.get("stream"):
        assert pieces(first.text) == pieces(again.text)
    else:
        assert first.json() == again.json()
    assert (Decision.objects.count(), Call.objects.count(), len(helper[2].asked)) == (1, 1, 1)


def test_calls_of_tools_keep_their_ids(ask, helper):
    helper[2].message = {"content": "Let me look.", "tool_calls": [CALL]}
    told = [ask.post("/chat/completions", json=chat(tools=[WEATHER]), headers=KEY).json() for _ in range(2)]
    for one in told:
        message = one["choices"][0]["message"]
        [call] = message["tool_calls"]
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])  # the ledger has no spaces of theirs
        assert (call["id"], set(call), message["content"]) == ("call_1", {"id", "type", "function"}, "Let me look.")
    assert told[0] == told[1]


def test_another_body_or_path_is_refused_and_a_bad_key_too(ask, helper):
    assert ask.post("/chat/completions", json=chat(), headers=KEY).status_code == 200
    for path, body in (("/chat/completions", chat(temperature=0.5)), ASKED[2]):
        refused = ask.post(path, json=body, headers=KEY)
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "idempotency_key_reused")
    refused = ask.post("/chat/completions", json=chat(), headers={"Idempotency-Key": "with space"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "Idempotency-Key")
    assert len(helper[2].asked) == 1


@pytest.mark.parametrize("name", ["Unit", "Episode", "Item", "Project", "User", "External-Id"])
def test_another_header_of_the_decision_is_another_request(name, ask, helper):
    header = f"X-Reckoner-{name}"
    for path, body in (ASKED[0], ASKED[2]):
        key = {"Idempotency-Key": f"once{path}"}
        first, again = (ask.post(path, json=body, headers=key | {header: "J\xf6rg".encode()}) for _ in range(2))
        assert (first.status_code, again.headers.get("idempotent-replayed")) == (200, "true")
        for others in ({header: "ben"}, {}):
            refused = ask.post(path, json=body, headers=key | others)
            assert (refused.status_code, refused.json()["error"]["code"]) == (422, "idempotency_key_reused")
    assert len(helper[2].asked) == 2


def test_a_key_that_lost_the_agent_gets_no_old_answer(ask, by, helper, key):
    assert ask.post("/chat/completions", json=chat(), headers=KEY).status_code == 200
    row = ApiKey.objects.get(prefix=key.partition(".")[0])
    change_key_limits(by=by, key=row, changes={"agents": ["other"]})
    for body in (chat(), chat("helper@champion")):
        fresh = ask.post("/chat/completions", json=body)
        assert (fresh.status_code, fresh.json()["error"]["code"]) == (403, "model_not_found")
    again = ask.post("/chat/completions", json=chat(), headers=KEY)
    assert (again.status_code, again.json()) == (403, fresh.json())
    change_key_limits(by=by, key=row, changes={"agents": []})
    assert ask.post("/chat/completions", json=chat(), headers=KEY).headers["idempotent-replayed"] == "true"


def test_while_the_first_runs_the_second_waits(ask, gateway, key, helper):
    helper[2].held.clear()
    first = threading.Thread(target=lambda: ask.post("/chat/completions", json=chat(), headers=KEY))
    first.start()
    wait_until(lambda: Call.objects.filter(state="open").exists())
    refused = ask.post("/chat/completions", json=chat(), headers=KEY)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "request_in_flight")
    helper[2].held.set()
    first.join()
    again = ask.post("/chat/completions", json=chat(), headers=KEY)
    assert again.json()["choices"][0]["message"]["content"] == SAYS and len(helper[2].asked) == 1


def test_what_failed_was_left_or_lost_is_asked_anew(ask, helper):
    server = helper[2]
    server.answers.append((500, {"error": {"message": "broken"}}))
    assert ask.post("/chat/completions", json=chat(stream=True), headers=KEY).status_code == 503
    server.after = lambda number: server.left.wait(0.05) if number >= 2 else None
    server.pick = "one two three " + "more " * 100
    with ask.stream("POST", "/chat/completions", json=chat(stream=True), headers=KEY) as answer:
        next(line for line in answer.iter_lines() if "one" in line)
    wait_until(lambda: Call.objects.filter(state="left").exists())
    wait_until(lambda: not KeptAnswer.objects.exists())
    server.after, server.pick = None, SAYS
    assert pieces(ask.post("/chat/completions", json=chat(stream=True, stream_options={"include_usage": True}),
                           headers=KEY).text)[1] == SAYS  # fmt: skip
    assert [one.finish_reason for one in Decision.objects.order_by("id")] == ["abandoned", "stop"]
    # A process that was killed after the commit leaves its claim, and one before it a claim that ends.
    KeptAnswer.objects.update(status=102)
    told = ask.post("/chat/completions", json=chat(stream=True, stream_options={"include_usage": True}), headers=KEY)
    assert told.headers["idempotent-replayed"] == "true"


def test_a_claim_without_a_decision_ends(ask, helper):
    assert ask.post("/chat/completions", json=chat(), headers=KEY).status_code == 200
    kept = KeptAnswer.objects.get()
    assert decision_of(kept.id) == Decision.objects.get().id
    Decision.objects.all().delete()
    KeptAnswer.objects.update(status=102)
    assert ask.post("/chat/completions", json=chat(), headers=KEY).status_code == 409
    KeptAnswer.objects.update(created_at=timezone.now() - dt.timedelta(hours=1))
    assert ask.post("/chat/completions", json=chat(), headers=KEY).status_code == 200
    assert len(helper[2].asked) == 2 and Decision.objects.count() == 1


def test_what_was_erased_does_not_come_again(ask, helper, workspace):
    assert ask.post("/chat/completions", json=chat(user="ann"), headers=KEY).status_code == 200
    erase_decisions(workspace=workspace, ids=[Decision.objects.get().id], secret=b"s" * 32)
    gone = ask.post("/chat/completions", json=chat(user="ann"), headers=KEY)
    assert (gone.status_code, gone.json()["error"]["code"]) == (410, "erased")
    assert len(helper[2].asked) == 1
