"""The limits of a key: the agents that it may ask, and what it may spend in a day. Each answer here costs 0.00005."""

import datetime as dt
from decimal import Decimal

import pytest
from django.db.models import F

from decisions.models import Decision
from models_registry.models import Call, KeySpend
from tools.factories import CallFactory
from workspaces.access.services import KeyLimits
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db
DAY = dt.timedelta(days=1)


def question(**fields):
    return {"state": {"text": "flight hotel"}} | fields


@pytest.fixture
def limited(api, remote):
    """`limited(agents=["filer"])`: a client whose key has these limits; the filer's server answers."""
    remote("gpt")
    return lambda **limits: api("route:read", limits=KeyLimits(**limits))


def test_a_key_asks_its_agents_and_no_other(limited, agent):
    assert limited(agents=["filer", "later"]).post("agents/filer/decide", question()).status_code == 201
    refused = limited(agents=["later"]).post("agents/filer/decide", question())
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "agent_not_allowed")
    [fault] = refused.json()["error"]["fields"]
    assert (fault["field"], fault["expected"]) == ("agent", "later") and "'filer'" in fault["reason"]
    again = limited(agents=["later"]).post(f"decisions/{Decision.objects.get().id}/ask", {"version": "filer:1"})
    assert again.json()["error"]["code"] == "agent_not_allowed"
    assert (Decision.objects.count(), Call.objects.count()) == (1, 1)


def test_a_key_that_lost_an_agent_gets_no_old_answer(limited, api):
    client, sent = limited(), question(id=uuid7())
    key = {"Idempotency-Key": "once"}
    assert client.post("agents/filer/decide", sent, **key).status_code == 201
    assert api().request("PATCH", f"keys/{client.key.id}", {"agents": ["later"]}).status_code == 200
    for headers in ({}, key):
        refused = client.post("agents/filer/decide", sent, **headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "agent_not_allowed")


def test_a_spent_budget_refuses_new_questions_until_midnight_and_no_repeat(limited, api):
    client, first = limited(spend_a_day=Decimal("0.0001")), uuid7()
    answered = client.post("agents/filer/decide", question(id=first))
    assert client.post("agents/filer/decide", question()).status_code == 201
    refused = client.post("agents/filer/decide", question())
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "budget_spent")
    assert 0 < int(refused.headers["Retry-After"]) <= 86_400
    [fault] = refused.json()["error"]["fields"]
    assert (fault["field"], fault["reason"]) == ("spend_a_day", "0.0001 of 0.0001 is spent since 00:00 UTC")
    repeated = client.post("agents/filer/decide", question(id=first))
    assert (repeated.status_code, repeated.json()) == (201, answered.json())
    assert (Decision.objects.count(), Call.objects.count()) == (2, 2)
    assert api("route:read").post("agents/filer/decide", question()).status_code == 201  # each key for itself
    Call.objects.update(opened_at=F("opened_at") - DAY)
    KeySpend.objects.update(day=F("day") - DAY)
    assert client.post("agents/filer/decide", question()).status_code == 201


def test_a_budget_counts_what_its_day_has_cost_before_it(limited, api):
    client = limited()
    for _ in range(2):
        assert client.post("agents/filer/decide", question()).status_code == 201
    call = Call.objects.first()
    CallFactory(assigned=call.assigned, api_key=client.key, cost=7, opened_at=call.opened_at - DAY)
    path = f"keys/{client.key.id}"
    assert api().request("PATCH", path, {"spend_a_day": "0.00012"}).status_code == 200
    answers = [client.post("agents/filer/decide", question()).status_code for _ in range(3)]
    assert answers == [201, 429, 429]
    assert KeySpend.objects.get().spent == Decimal("0.00015")  # what is under way may go over it
    assert api().request("PATCH", path, {"spend_a_day": None}).status_code == 200
    assert client.post("agents/filer/decide", question()).status_code == 201
    assert KeySpend.objects.get().spent == Decimal("0.0002")
