"""The client behind a proxy: through it, with a password, and around it where NO_PROXY says so."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from reckoner_client import ConfigurationError, Reckoner, Unavailable

from decisions.models import Decision
from tests.clients.python.gateway import Gateway

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def make_behind(make_client: Callable[..., Reckoner], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Reckoner]:
    """A client that has recorded one decision, in an environment of its own."""

    def make(**environment: str) -> Reckoner:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        client = make_client()
        client.record_decision("filer", {"text": "a flight"}, "travel", policy_name="outside")
        return client

    return make


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_the_environment_s_proxy_forwards_and_may_ask_for_a_password(
    variable: str, make_behind: Callable[..., Reckoner], gateway: Gateway, live_server: Any
) -> None:
    place = gateway.url.removeprefix("http://")
    client = make_behind(**{variable: f"http://ann:s%3Acret%2F%C3%A9@{place}"})
    assert client.flush(60)
    assert Decision.objects.count() == 1
    assert [path for _, path, _ in gateway.seen] == [f"{live_server.url}/api/v1/decisions"]
    assert gateway.logins == ["Basic " + base64.b64encode("ann:s:cret/é".encode()).decode()]


def test_no_proxy_goes_around_it(make_behind: Callable[..., Reckoner], gateway: Gateway) -> None:
    for around in ("localhost,127.0.0.1", "*"):
        assert make_behind(HTTP_PROXY=gateway.url, NO_PROXY=around).flush(60)
    assert Decision.objects.count() == 2
    assert gateway.seen == []


def test_a_proxy_that_lets_nobody_in_loses_nothing(
    make_behind: Callable[..., Reckoner], gateway: Gateway, caplog: Any
) -> None:
    gateway.plan.extend([(407, {})] * 3)
    client = make_behind(HTTP_PROXY=gateway.url)
    assert client.flush(60)
    assert (client.stats().key_refusals, client.stats().dropped, Decision.objects.count()) == (3, 0, 1)
    assert "the key or the address is refused (407" in caplog.text


def test_a_proxy_that_is_away_or_none_is_named_without_its_password(
    make_behind: Callable[..., Reckoner], caplog: Any
) -> None:
    client = make_behind(HTTP_PROXY="http://ann:secret@127.0.0.1:9")
    with pytest.raises(Unavailable, match=r"through the proxy 127\.0\.0\.1:"):
        client.decide("filer", {"text": "a flight"}, timeout=0.2)
    assert (client.stats().pending, Decision.objects.count()) == (1, 0)
    for address in ("socks5://ann:secret@127.0.0.1:1080", "http://", "http://[::1"):
        with pytest.raises(ConfigurationError, match="http_proxy of the environment") as refused:
            make_behind(HTTP_PROXY=address)
        assert "secret" not in str(refused.value)
    assert "secret" not in caplog.text
