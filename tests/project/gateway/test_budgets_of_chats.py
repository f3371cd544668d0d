"""Budgets hold in chats: however many are asked at once, and whoever leaves or is killed before the answer ends."""

import asyncio
import contextlib
import datetime as dt
import http.client
import json
import socket
import threading
import time
from collections import Counter
from decimal import Decimal

import aiohttp
import httpx
import pytest
from django.db.models import Sum
from django.utils import timezone

from decisions.models import Decision
from models_registry.calls.records import close_abandoned
from models_registry.models import Call, KeySpend
from tests.project.gateway.conftest import PLAIN, Gateway
from tests.project.gateway.test_chats import chat, wait_until
from tools.ports import free_port
from workspaces.access.services import KeyLimits, create_api_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("gateway"), pytest.mark.slow]
AT_ONCE = 512
STREAMS = 6


@pytest.fixture
def key(by):
    """Of a budget that is not reached."""
    return make_key(by, Decimal(1))


def make_key(by, budget):
    limits = KeyLimits(spend_a_day=budget)
    return create_api_key(by=by, name="chats", scopes=["route:read"], limits=limits).token


def day():
    return KeySpend.objects.values_list("spent", "reserved").get()


@pytest.fixture
def two_gateways(transactional_db, tmp_path):
    """Two processes, each of which takes all that is asked."""
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made.append(Gateway(tmp_path / name))
        made[-1].environment |= {"RECKONER_GATEWAY_CHATS": "1024", "RECKONER_KEY_REQUESTS_A_MINUTE": "100000"}
    try:
        for gateway in made:
            gateway.ensure()
        yield made
    finally:
        codes = [gateway.stop() for gateway in made]
    assert codes == [0, 0]


async def ask_at_once(gateways, key, count, server=None):
    """The statuses. Where a server holds its calls, they are released once all others are answered: a reservation that
    is settled earlier would make room for another call."""
    timeout = aiohttp.ClientTimeout(total=90)
    headers = {"Authorization": f"Bearer {key}"}
    # A connection for each call: one that is used again may be closed by the server at that moment.
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector) as session:

        async def ask(number, again=2):
            url = f"{gateways[number % len(gateways)].url}/v1/chat/completions"
            try:
                async with session.post(url, json=chat()) as answer:
                    body = await answer.json()
                    return answer.status, (body.get("error") or {}).get("code")
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
                if not again:
                    raise
            await asyncio.sleep(0.5)  # as OpenAI's client: a connection that was reset is made again
            return await ask(number, again - 1)

        asked = [asyncio.ensure_future(ask(number)) for number in range(count)]
        if server is not None:
            while sum(one.done() for one in asked) + len(server.asked) < count:
                await asyncio.sleep(0.02)
            server.held.set()
        return Counter(await asyncio.gather(*asked))


def test_of_512_calls_at_once_at_two_gateways_those_are_asked_that_the_budget_covers(two_gateways, by, helper):
    server = helper[2]
    probe = make_key(by, Decimal(1))
    answer = httpx.post(
        f"{two_gateways[0].url}/v1/chat/completions", json=chat(), headers={"Authorization": f"Bearer {probe}"},
        trust_env=False, timeout=30,
    )  # fmt: skip
    assert answer.status_code == 200
    first = Call.objects.get()
    assert first.reserved > first.cost > 0
    Call.objects.all().delete()
    KeySpend.objects.all().delete()
    server.asked.clear()
    budget = (10 * first.reserved).quantize(Decimal("0.000001"))
    key = make_key(by, budget)
    server.held.clear()
    statuses = asyncio.run(ask_at_once(two_gateways, key, AT_ONCE, server))
    answered = statuses[200, None]
    assert len(server.asked) == answered
    assert statuses == {(200, None): answered, (429, "rate_limit_exceeded"): AT_ONCE - answered}
    held = list(Call.objects.values_list("reserved", flat=True))
    assert 10 <= answered <= 20  # a server whose answer was counted is known better, and less is reserved of it
    assert budget <= sum(held) < budget + max(held)
    assert day() == (Call.objects.aggregate(cost=Sum("cost"))["cost"], 0) and day()[0] < budget
    assert Call.objects.count() == Decision.objects.count() - 1 == answered


def test_of_512_calls_at_once_no_more_is_spent_than_the_budget_and_one_reservation(two_gateways, by, helper):
    budget = Decimal("0.0005")  # ten answers, whose reservations are twenty times as high
    key = make_key(by, budget)
    statuses = asyncio.run(ask_at_once(two_gateways, key, AT_ONCE))
    assert sum(statuses.values()) == AT_ONCE and statuses[200, None] >= 1
    assert {status for status, _ in statuses} <= {200, 429}
    spent, reserved = day()
    assert reserved == 0 and 0 < spent <= budget + max(Call.objects.values_list("reserved", flat=True))


def test_streams_that_are_left_before_their_usage_pay(gateway, ask, helper):
    server = helper[2]
    server.after = lambda number: time.sleep(0.05) if number >= 3 else None
    server.pick = "one two three " + "more " * 100
    for number in range(STREAMS):
        with ask.stream("POST", "/chat/completions", json=chat(stream=True)) as answer:
            assert answer.status_code == 200, answer.read()
            assert any("three" in line for line in answer.iter_lines())
        # A call that is settled keeps its place until its spans are linked, and the gateway has two places.
        wait_until(lambda: httpx.get(f"{gateway.url}/readyz", **PLAIN).json()["answering"] == 0)
        assert Call.objects.filter(state="left").count() == number + 1
    costs = list(Call.objects.values_list("cost", flat=True))
    assert len(costs) == STREAMS and all(cost > 0 for cost in costs)
    assert day() == (sum(costs), 0)


@pytest.mark.parametrize("stream", [False, True])
def test_who_leaves_before_a_word_pays_what_was_reserved(gateway, key, helper, stream):
    helper[2].held.clear()
    line = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
    line.request("POST", "/v1/chat/completions", json.dumps(chat(stream=stream)), {"Authorization": f"Bearer {key}"})
    wait_until(lambda: helper[2].asked)
    call = Call.objects.get()
    assert day() == (0, call.reserved) and call.reserved > 0
    line.close()
    wait_until(lambda: Call.objects.filter(state="left").exists())
    assert day() == (call.reserved, 0)


def leave(gateway, key, until, **fields):
    """Asks for a chat, and leaves when `until` holds."""
    line = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
    line.request("POST", "/v1/chat/completions", json.dumps(chat(**fields)), {"Authorization": f"Bearer {key}"})
    wait_until(until)
    assert day()[1] > 0
    line.close()
    wait_until(lambda: Call.objects.filter(state="left").exists())
    return Call.objects.get(state="left")


@pytest.fixture
def full():
    """The URL of a server that takes no more connections: one is tried until its time is over."""
    with contextlib.ExitStack() as held:
        listening = held.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(3):
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


@pytest.mark.parametrize("stream", [False, True])
def test_who_leaves_before_any_server_has_the_chat_pays_nothing(gateway, key, chatting, deploy, full, stream):
    deploy(chatting(), "gpt", full)
    call = leave(gateway, key, lambda: Call.objects.filter(state="open").exists(), stream=stream)
    assert (call.cost, call.backend) == (0, None) and call.reserved > 0
    assert day() == (0, 0)


@pytest.mark.parametrize("stream", [False, True])
def test_who_leaves_pays_the_server_that_has_the_chat_and_none_that_failed(gateway, key, helper, deploy, serve, stream):
    agent, version, server = helper
    server.answers.append((500, {"error": "broken"}))
    spare = serve()
    deploy(agent, "spare", spare.url, version=version, price_in=Decimal("0.1"), price_out=1)
    spare.held.clear()
    call = leave(gateway, key, lambda: spare.asked, stream=stream)
    assert len(server.asked) == 1 and call.backend.name == "spare"
    assert 0 < call.cost < call.reserved / 5
    assert day() == (call.cost, 0)


def test_who_leaves_pays_what_a_server_of_known_speed_can_have_written(gateway, key, helper):
    server = helper[2]
    usage = {"prompt_tokens": 20, "completion_tokens": 60, "total_tokens": 80}
    message = {"role": "assistant", "content": "Take the early train to Oslo"}
    server.answers.append((200, {"choices": [{"index": 0, "message": message}], "usage": usage}))
    release = threading.Timer(2.0, server.held.set)  # of the 99 tokens that it may write
    server.held.clear()
    release.start()
    assert httpx.post(
        f"{gateway.url}/v1/chat/completions", json=chat(), headers={"Authorization": f"Bearer {key}"},
        trust_env=False, timeout=30,
    ).status_code == 200  # fmt: skip
    spent = day()[0]
    server.held.clear()
    call = leave(gateway, key, lambda: len(server.asked) == 2)
    assert Decimal("0.00002") <= call.cost < call.reserved / 2
    assert day() == (spent + call.cost, 0)


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_has_the_chat_and_does_not_answer_in_time_may_count_it(ask, chatting, deploy, silent, stream):
    deploy(chatting(), "gpt", silent, timeout_seconds=1)
    assert ask.post("/chat/completions", json=chat(stream=stream)).status_code == 503
    call = Call.objects.get()
    assert (call.state, call.cost, call.backend.name) == ("failed", call.reserved, "gpt") and call.cost > 0
    assert day() == (call.cost, 0)


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_dies_before_a_word_may_count_the_chat(ask, helper, stream):
    server = helper[2]
    server.answers.append((200, b"data: ", {"Transfer-Encoding": "chunked"}))
    assert ask.post("/chat/completions", json=chat(stream=stream)).status_code == 503
    call = Call.objects.get()
    assert (call.state, call.cost) == ("failed", call.reserved) and call.cost > 0
    assert day() == (call.cost, 0)


@pytest.mark.parametrize("stream", [False, True])
def test_servers_that_had_no_chat_or_refused_it_count_nothing(ask, helper, deploy, stream):
    agent, version, server = helper
    server.answers.append((500, {"error": "broken"}))
    deploy(agent, "gone", f"http://127.0.0.1:{free_port()}/v1", version=version)
    assert ask.post("/chat/completions", json=chat(stream=stream)).status_code == 503
    call = Call.objects.get()
    assert (call.state, call.cost) == ("failed", None) and call.reserved > 0
    assert day() == (0, 0)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_costs_what_the_servers_before_it_may_count_as_well(ask, chatting, deploy, silent, serve, stream):
    agent, spare = chatting(), serve()
    version = deploy(agent, "gpt", silent)
    deploy(agent, "spare", spare.url, version=version)
    assert ask.post("/chat/completions", json=chat(stream=stream)).status_code == 200
    call, decision = Call.objects.get(), Decision.objects.get()
    assert call.backend.name == "spare" and decision.cost == Decimal("0.00005")
    assert decision.cost + call.reserved / 3 < call.cost <= call.reserved
    assert day() == (call.cost, 0)


def test_a_limit_of_the_client_s_is_what_it_reserves(ask, helper):
    for most in (5, 5, 50):
        assert ask.post("/chat/completions", json=chat(max_tokens=most)).status_code == 200
    _, few, many = Call.objects.order_by("id").values_list("reserved", flat=True)
    assert many - few == Decimal(45 * 10) / 10**6


def test_a_killed_gateway_s_reservation_is_settled_by_the_sweep(gateway, ask, helper):
    helper[2].after = lambda number: helper[2].left.wait(0.05)
    helper[2].pick = "word " * 200
    with pytest.raises(httpx.TransportError), ask.stream("POST", "/chat/completions", json=chat(stream=True)) as answer:
        for number, _ in enumerate(answer.iter_lines()):
            if number == 2:
                gateway.kill()
    call = Call.objects.get()
    assert (call.state, day()) == ("open", (0, call.reserved)) and call.reserved > 0
    soon = timezone.now() + dt.timedelta(hours=1)
    assert close_abandoned(older_than=dt.timedelta(seconds=900), now=soon) == 1
    assert day() == (call.reserved, 0)
