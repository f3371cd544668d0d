"""A server that had a question and did not answer may count it, so the key's budget does: the prompt, and as much as
can have been written meanwhile. Each answer that comes costs 0.00005."""

from decimal import Decimal

import pytest

from decisions.agents.services import AgentSetup, create_agent_version
from models_registry.backends.endpoint import endpoint_of
from models_registry.backends.token_estimates import learn_speed
from models_registry.models import AliasName, Backend, Call, KeySpend
from models_registry.versions.services import move_alias
from tools.factories import DecisionFactory
from workspaces.access.services import KeyLimits

pytestmark = pytest.mark.django_db
COST = Decimal("0.00005")
QUESTION = {"state": {"text": "flight hotel"}}
SLOW = {"timeout_seconds": 0.2}


@pytest.fixture
def client(api):
    return api("route:read", limits=KeyLimits(spend_a_day=Decimal(1)))


def spent():
    """What the key has spent; nothing stays reserved."""
    [(amount, reserved)] = KeySpend.objects.values_list("spent", "reserved")
    assert reserved == 0
    return amount


def test_a_decision_whose_server_times_out_costs_what_it_may_have_written(client, remote):
    _, server = remote("gpt", **SLOW)
    server.held.clear()
    assert client.post("agents/filer/decide", QUESTION).status_code == 503
    call = Call.objects.get()
    assert call.state == "failed" and 0 < call.cost <= call.reserved
    assert spent() == call.cost


def test_what_it_may_have_written_is_bounded_by_its_speed(client, remote):
    _, server = remote("gpt", **SLOW)
    learn_speed(endpoint_of(Backend.objects.get()), "gpt", 100, 10.0)  # 10 tokens a second
    server.held.clear()
    client.post("agents/filer/decide", QUESTION)
    assert 0 < spent() < Decimal("0.0005")  # 256 tokens would be 0.00256


def test_a_question_of_the_playground_costs_too(client, remote, agent):
    _, server = remote("gpt", **SLOW)
    decision = DecisionFactory(agent=agent)
    server.held.clear()
    assert client.post(f"decisions/{decision.id}/ask", {"version": "filer:1"}).status_code == 503
    assert 0 < spent() == Call.objects.get().cost


def test_an_answer_that_is_written_costs_too(client, remote, agent, by):
    _, server = remote("gpt", **SLOW)
    create_agent_version(
        by=by, agent=agent, setup=AgentSetup("{{ text }}", action_space="text", max_completion_tokens=64)
    )
    server.held.clear()
    assert client.post("agents/filer/decide", QUESTION).status_code == 503
    assert 0 < spent() <= Decimal("0.0008")  # 64 tokens, and the prompt


@pytest.mark.parametrize("answer", [b"no JSON", b"[]", {"choices": ["x"]}, {"choices": []}])
def test_an_answer_that_is_none_costs(client, remote, answer):
    _, server = remote("gpt")
    server.answers.append((200, answer))
    assert client.post("agents/filer/decide", QUESTION).status_code == 503
    assert spent() > 0


@pytest.mark.parametrize("status", [500, 401, 429])
def test_an_error_status_costs_nothing(client, remote, status):
    _, server = remote("gpt")
    server.answers.append((status, {"error": "no"}))
    assert client.post("agents/filer/decide", QUESTION).status_code >= 400
    assert spent() == 0


def test_a_server_that_is_not_reached_costs_nothing(client, remote):
    _, server = remote("gpt")
    server.stop()
    assert client.post("agents/filer/decide", QUESTION).status_code == 503
    assert spent() == 0


def test_the_lost_answer_counts_beside_that_of_the_next_server(client, remote, by, settings):
    settings.FALLBACK_SECONDS = 0.2
    _, server = remote("gpt")
    spare, _ = remote("llama")
    move_alias(by=by, version=spare, name=AliasName.FALLBACK)
    server.held.clear()
    assert client.post("agents/filer/decide", QUESTION).status_code == 201
    call = Call.objects.get()
    assert COST < call.cost == spent() <= call.reserved


def test_items_of_one_request_cost_each(client, remote):
    _, server = remote("gpt", **SLOW)
    server.held.clear()
    items = [{"state": {"text": text}} for text in ("flight", "hotel")]
    assert client.post("agents/filer/decide", items).status_code == 503
    costs = list(Call.objects.values_list("cost", flat=True))
    assert len(costs) == 2 and min(costs) > 0 and sum(costs) == spent()
