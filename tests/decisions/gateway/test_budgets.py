"""Budgets hold: a call reserves what it may cost, and settles it however it ends. Each answer here costs 0.00005."""

import datetime as dt
import threading
import time
from decimal import Decimal

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from decisions.models import Decision
from models_registry.calls.budgets import settle_unopened
from models_registry.calls.key_limits import measure_key_use
from models_registry.calls.records import Ending, Opening, claim_calls, close_abandoned, close_calls, open_calls
from models_registry.errors import BudgetReserved, BudgetSpent
from models_registry.models import AliasName, Call, KeySpend
from models_registry.versions.services import move_alias
from tests.clocks import moved_clock  # noqa: F401 - a fixture
from tools.factories import DecisionFactory
from workspaces.access.actors import program
from workspaces.access.services import KeyLimits
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db
COST = Decimal("0.00005")
QUESTION = {"state": {"text": "flight hotel"}}


@pytest.fixture
def remote_version(remote):
    return remote("gpt")


@pytest.fixture
def client(api, remote_version):
    return api("route:read", limits=KeyLimits(spend_a_day=Decimal(1)))


@pytest.fixture
def hold(client, remote_version):
    """`hold("0.4")` opens a call that may cost so much; returns its id."""

    def open_one(*costs):
        ids = [uuid7() for _ in costs]
        openings = [Opening(one, remote_version[0], Decimal(cost)) for one, cost in zip(ids, costs, strict=True)]
        opened = open_calls(by=program(client.key), kind="decide", openings=openings, now=timezone.now())
        assert opened == len(costs)
        return ids[0]

    return open_one


def day():
    return KeySpend.objects.values_list("spent", "reserved").get()


def close(client, call, state, version=None, **fields):
    ending = Ending(call, state, served=version.id if version is not None else None, **fields)
    close_calls(by=program(client.key), endings=[ending], now=timezone.now())


def test_a_call_reserves_its_highest_cost_and_settles_it(client, remote_version):
    server, seen = remote_version[1], []
    take = server.next_message
    server.next_message = lambda: seen.append(1) or take()
    assert client.post("agents/filer/decide", QUESTION).status_code == 201
    call = Call.objects.get()
    assert call.reserved >= call.cost == COST and seen == [1]
    assert day() == (COST, 0)


def test_calls_that_are_open_leave_no_room_and_the_refusal_says_so(client, hold):
    hold("0.4")
    hold("0.7")  # the last one may go over the budget, by its own reservation at most
    with pytest.raises(BudgetReserved):
        hold("0")
    refused = client.post("agents/filer/decide", QUESTION)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "budget_reserved")
    [fault] = refused.json()["error"]["fields"]
    assert fault["reason"] == "0 of 1 is spent since 00:00 UTC, 1.1 is reserved by open calls"
    assert "when open calls are over" in fault["expected"] and "00:00 UTC" in fault["expected"]
    assert 0 < int(refused.headers["Retry-After"]) <= 5
    assert (Call.objects.count(), Decision.objects.count(), day()) == (2, 0, (0, Decimal("1.1")))


@pytest.mark.parametrize(
    ("state", "cost", "counted"),
    [
        ("answered", "0.01", "0.01"), ("answered", None, "0.4"), ("left", "0.02", "0.02"), ("left", None, "0.4"),
        ("failed", "0.03", "0.03"), ("failed", None, "0"),
    ],
)  # fmt: skip
def test_every_ending_settles_the_reservation(client, hold, remote_version, state, cost, counted):
    call = hold("0.4")
    assert day() == (0, Decimal("0.4"))
    fields = {"error": "It failed."} if state == "failed" else {}
    for _ in range(2):  # a second time nothing happens
        close(client, call, state, remote_version[0], cost=cost and Decimal(cost), **fields)
        assert day() == (Decimal(counted), 0)


def test_a_killed_process_s_call_counts_at_what_it_reserved(client, hold, api):
    hold("0.4")
    soon = timezone.now() + dt.timedelta(hours=1)
    assert close_abandoned(older_than=dt.timedelta(minutes=15), now=soon) == 1
    assert day() == (Decimal("0.4"), 0)
    assert close_abandoned(older_than=dt.timedelta(minutes=15), now=soon) == 0
    hold("0.4")
    use = api().get(f"keys/{client.key.id}/use").json()
    assert (use["spent"], use["reserved"]) == ("0.40000000", "0.40000000")


def test_calls_are_swept_by_the_database_s_clock(client, hold, moved_clock):  # noqa: F811
    hold("0.4")
    moved_clock.set_ahead(hours=48)
    assert close_abandoned(older_than=dt.timedelta(minutes=15)) == 0
    assert day() == (0, Decimal("0.4"))
    moved_clock.set_ahead(hours=-48)
    Call.objects.update(opened_at=F("opened_at") - dt.timedelta(hours=1))
    assert close_abandoned(older_than=dt.timedelta(minutes=15)) == 1


def test_a_call_settles_the_day_in_which_it_was_opened(client, remote_version):
    yesterday = timezone.now() - dt.timedelta(days=1)
    call = uuid7()
    opening = Opening(call, remote_version[0], Decimal("0.4"))
    open_calls(by=program(client.key), kind="chat", openings=[opening], now=yesterday)
    assert client.post("agents/filer/decide", QUESTION).status_code == 201
    close(client, call, "left", cost=Decimal("0.1"))
    assert list(KeySpend.objects.order_by("day").values_list("spent", "reserved")) == [(Decimal("0.1"), 0), (COST, 0)]


def test_all_but_one_of_the_items_need_room(client, hold):
    hold("0.5", "0.4", "3")
    close_abandoned(older_than=dt.timedelta(0), now=timezone.now() + dt.timedelta(hours=1))
    KeySpend.objects.update(spent=0)
    with pytest.raises(BudgetSpent) as refused:
        hold("0.5", "0.6", "0.6")
    assert "all but one of the items may cost 1.1" in refused.value.faults[0].reason
    assert day() == (0, 0)


def test_a_question_under_an_id_that_is_being_answered_reserves_nothing(client, hold, remote_version):
    call = hold("0.4")
    opening = Opening(call, remote_version[0], Decimal("0.3"))
    by, now = program(client.key), timezone.now()
    for _ in range(3):
        assert claim_calls(by=by, openings=[opening], now=now, again=False) == frozenset()
        assert open_calls(by=by, kind="chat", openings=[opening], now=now) == 0
    assert day() == (0, Decimal("0.4"))
    assert claim_calls(by=by, openings=[opening], now=now, again=True) == {call}  # which is asked, and counts at once
    assert day() == (Decimal("0.3"), Decimal("0.4"))
    settle_unopened(client.key, Decimal(9), now, cost=Decimal(0))
    assert day() == (Decimal("0.3"), 0)


def test_a_decision_that_is_killed_in_one_process_is_asked_again_in_another(client, hold, remote_version, settings):
    settings.REPEATED_DECISION_SECONDS = 0.05
    call = hold("0.4")
    answer = client.post("agents/filer/decide", QUESTION | {"id": str(call)})
    assert answer.status_code == 201 and answer.json()["decision_id"] == str(call)
    [asked] = day()[:1]
    assert Call.objects.get().cost == COST and asked > COST  # a server was asked twice, as far as anybody knows


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_one_decision_that_many_ask_for_at_once_reserves_and_costs_once(client, remote_version, at_once):
    server, seen = remote_version[1], []
    server.held.clear()
    question = QUESTION | {"id": str(uuid7())}

    def ask():
        return client.post("agents/filer/decide", question)

    def release():
        while not server.asked:
            time.sleep(0.01)
        time.sleep(0.5)  # the others have come
        seen.append(day())
        server.held.set()
        connection.close()

    releasing = threading.Thread(target=release)
    releasing.start()
    answers = at_once(8, ask)
    releasing.join()
    assert {one.status_code for one in answers} <= {200, 201} and len({one.json()["action"] for one in answers}) == 1
    assert len(server.asked) == 1 and seen == [(0, Call.objects.get().reserved)]
    assert day() == (COST, 0)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_decision_that_fails_is_asked_again_by_whoever_waits(client, remote_version, at_once):
    remote_version[1].answers.append((500, {"error": "broken"}))
    question = QUESTION | {"id": str(uuid7())}
    statuses = [one.status_code for one in at_once(4, lambda: client.post("agents/filer/decide", question))]
    assert statuses.count(503) == 1 and set(statuses) <= {200, 201, 503}
    assert len(remote_version[1].asked) == 2 and day() == (COST, 0)


def test_answers_that_cannot_be_used_cost_as_well(client, remote, remote_version, by):
    spare, _ = remote("llama")
    move_alias(by=by, version=spare, name=AliasName.FALLBACK)
    remote_version[1].pick = "none of the options"
    assert client.post("agents/filer/decide", QUESTION).status_code == 201
    assert (Decision.objects.get().cost, Call.objects.get().cost) == (COST, 2 * COST)
    assert day() == (2 * COST, 0)


def test_what_failed_after_an_answer_costs(client, remote_version):
    remote_version[1].pick = "none of the options"
    assert client.post("agents/filer/decide", QUESTION).status_code == 503
    assert (Call.objects.get().cost, day()) == (COST, (COST, 0))


def test_the_playground_s_questions_count_for_the_database_s_day(
    client,
    remote_version,
    agent,
    moved_clock,  # noqa: F811
):
    today = timezone.now()
    moved_clock.set_ahead(hours=48)
    decision = DecisionFactory(agent=agent)
    assert client.post(f"decisions/{decision.id}/ask", {"version": "filer:1"}).status_code == 200
    assert abs(Call.objects.get().opened_at - today) < dt.timedelta(minutes=1)


def test_the_playground_s_questions_count(client, remote_version, agent):
    decision = DecisionFactory(agent=agent)
    assert client.post(f"decisions/{decision.id}/ask", {"version": "filer:1"}).status_code == 200
    assert (Call.objects.get().kind, Call.objects.get().state, day()) == ("playground", "answered", (COST, 0))
    client.key.spend_a_day = COST
    client.key.save()
    refused = client.post(f"decisions/{decision.id}/ask", {"version": "filer:1"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "budget_spent")
    assert (Call.objects.count(), measure_key_use(client.key, now=timezone.now()).spent) == (1, COST)
