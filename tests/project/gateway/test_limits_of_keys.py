"""The limits of a key as OpenAI's clients hear of them."""

from decimal import Decimal

import openai
import pytest

from decisions.chats.faults import as_openai
from decisions.models import Decision
from models_registry.models import Call
from tests.project.gateway.test_chats import chat
from workspaces.access.actors import program
from workspaces.access.services import KeyLimits, create_api_key
from workspaces.errors import TooManyRequests
from workspaces.http.throttling import count_request

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("gateway")]


def test_a_key_sees_its_agents_and_stops_at_its_budget(client, by, helper, chatting, deploy):
    deploy(chatting("other"), "llama", helper[2].url)
    limits = KeyLimits(agents=["helper"], spend_a_day=Decimal("0.00005"))
    limited = client.with_options(
        api_key=create_api_key(by=by, name="limited", scopes=["route:read"], limits=limits).token, max_retries=2
    )
    assert [model.id for model in client.models.list()] == ["helper", "helper@champion", "other", "other@champion"]
    assert [model.id for model in limited.models.list()] == ["helper", "helper@champion"]
    for ask in (
        lambda: limited.chat.completions.create(**chat("other")),
        lambda: limited.models.retrieve("other@champion"),
    ):
        with pytest.raises(openai.PermissionDeniedError) as refused:
            ask()
        assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
        assert "give helper" in refused.value.message
    assert limited.chat.completions.create(**chat()).model == "helper:1"
    with pytest.raises(openai.RateLimitError) as spent:
        limited.chat.completions.create(**chat(stream=True))
    assert (spent.value.code, spent.value.type) == ("insufficient_quota", "insufficient_quota")
    assert "0.00005 of 0.00005 is spent" in spent.value.message
    assert int(spent.value.response.headers["retry-after"]) > 0
    assert spent.value.response.headers["x-should-retry"] == "false"
    assert (Decision.objects.count(), Call.objects.count(), len(helper[2].asked)) == (1, 1, 1)


RATES = ("limit", "remaining", "reset")


@pytest.mark.parametrize("stream", [False, True])
def test_answers_and_refusals_say_how_many_requests_are_left(client, by, helper, stream):
    limits = KeyLimits(requests_a_minute=5)
    limited = client.with_options(
        api_key=create_api_key(by=by, name="few", scopes=["route:read"], limits=limits).token, max_retries=0
    )

    def told(headers):
        limit, left, reset = (headers[f"x-ratelimit-{name}-requests"] for name in RATES)
        assert 0 < int(reset.removesuffix("s")) <= 60
        return int(limit), int(left)

    left = []
    with pytest.raises(openai.RateLimitError) as refused:
        for _ in range(12):  # a minute may end in between
            answer = limited.chat.completions.with_raw_response.create(**chat(stream=stream))
            left.append(told(answer.headers))
            answer.http_response.read()  # the next one finds its place free
    assert (5, 4) in left and all(limit == 5 for limit, _ in left)
    assert told(refused.value.response.headers) == (5, 0)
    assert int(refused.value.response.headers["retry-after"]) > 0


def test_a_key_that_asks_too_often_hears_when_to_ask_again(by, settings):
    settings.KEY_REQUESTS_A_MINUTE = 1
    key = create_api_key(by=by, name="few", scopes=["route:read"], limits=KeyLimits(requests_a_minute=1)).key
    with pytest.raises(TooManyRequests) as refused:
        for _ in range(4):  # a minute may end in between
            count_request(program(key))
    message = as_openai(refused.value)[1]["error"]["message"]
    assert f"(send the same request again in {refused.value.wait} s)" in message


def test_a_rate_is_refused_with_openai_s_code():
    status, body, headers = as_openai(TooManyRequests("Too many.", wait=7))
    assert (status, body["error"]["code"], body["error"]["type"]) == (429, "rate_limit_exceeded", "rate_limit_error")
    assert headers == {"Retry-After": "7"}
