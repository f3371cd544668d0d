"""The client behind a proxy: forwarded, tunnelled, with a password, and around it where NO_PROXY says so."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from reckoner_client import ConfigurationError, Reckoner, Unavailable

from decisions.models import Decision
from tests.clients.python.gateway import Gateway, running_gateway
from tests.clients.python.proxy import Proxy, running_proxy

pytestmark = pytest.mark.django_db(transaction=True)
RECORD = """
from reckoner_client import Reckoner, Sending
with Reckoner(sending=Sending(linger_seconds=0.02, exit_seconds=60)) as client:
    made = client.record_decision("filer", {"text": "a flight"}, "travel", policy_name="outside")
    assert client.flush(60), client.stats()
    print(made, client.get_decision(made, timeout=60)["action"])
"""


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with running_proxy() as found:
        yield found


@pytest.fixture
def https(live_server: Any, tmp_path: Path) -> Iterator[tuple[Gateway, Path]]:
    """The instance behind a gateway that speaks TLS, and the certificate to trust it by."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with running_gateway(live_server.url, tls=context) as gateway:
        yield gateway, certificate


def record(client: Reckoner) -> None:
    client.record_decision("filer", {"text": "a flight"}, "travel", policy_name="outside")


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_the_environment_s_proxy_forwards(
    variable: str, run_host: Callable[..., Any], proxy: Proxy, live_server: Any
) -> None:
    # Urllib's own rule: without a scheme it is http.
    run_host(RECORD, **{variable: proxy.address if variable == "http_proxy" else f"http://{proxy.address}"})
    assert Decision.objects.count() == 1
    assert {method for method, _ in proxy.seen} == {"POST", "GET"}
    assert all(target.startswith(f"{live_server.url}/api/v1/decisions") for _, target in proxy.seen)


def test_https_goes_through_a_tunnel(run_host: Callable[..., Any], proxy: Proxy, https: tuple[Gateway, Path]) -> None:
    gateway, certificate = https
    trust = {"SSL_CERT_FILE": str(certificate)}
    run_host(RECORD, url=gateway.url, HTTPS_PROXY=f"http://{proxy.address}", HTTP_PROXY="http://127.0.0.1:9", **trust)
    assert Decision.objects.count() == 1
    assert set(proxy.seen) == {("CONNECT", urlsplit(gateway.url).netloc)}
    assert len(gateway.seen) == 2


@pytest.mark.parametrize("around", ["localhost", "*", "somewhere.else,localhost:{port}"])
def test_no_proxy_goes_around_it(around: str, run_host: Callable[..., Any], proxy: Proxy, live_server: Any) -> None:
    around = around.format(port=urlsplit(live_server.url).port)
    run_host(RECORD, HTTP_PROXY=f"http://{proxy.address}", NO_PROXY=around)
    assert Decision.objects.count() == 1
    assert proxy.seen == []


def test_the_argument_goes_before_the_environment_and_may_hold_a_password(
    make_client: Callable[..., Reckoner], proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.login = "ann:s:cret/é"
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    client = make_client(proxy=f"http://ann:s%3Acret%2F%C3%A9@{proxy.address}")
    record(client)
    assert client.flush(60)
    assert (Decision.objects.count(), len(proxy.seen)) == (1, 1)

    around = make_client(proxy="")
    record(around)
    assert around.flush(60)
    assert (Decision.objects.count(), len(proxy.seen)) == (2, 1)


def test_a_proxy_that_lets_nobody_in_loses_nothing(
    make_client: Callable[..., Reckoner], proxy: Proxy, caplog: Any
) -> None:
    proxy.login = "ann:secret"
    client = make_client(proxy=f"http://ann:wrong@{proxy.address}")
    record(client)
    assert not client.flush(0.3)
    stats = client.stats()
    assert (stats.held, stats.refused, stats.dropped) == (1, 0, 0)
    assert "the key or the address is refused (407" in caplog.text
    proxy.login = "ann:wrong"
    assert client.flush(60)
    assert Decision.objects.count() == 1


def test_a_proxy_that_is_away_is_named_without_its_password(make_client: Callable[..., Reckoner], caplog: Any) -> None:
    client = make_client(proxy="http://ann:secret@127.0.0.1:9")
    with pytest.raises(Unavailable, match=r"through the proxy 127\.0\.0\.1:"):
        client.decide("filer", {"text": "a flight"}, timeout=0.2)
    record(client)
    assert not client.flush(0.2)
    assert (client.stats().pending, Decision.objects.count()) == (1, 0)
    assert "through the proxy 127.0.0.1" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("address", ["socks5://ann:secret@127.0.0.1:1080", "http://", "http://[::1"])
def test_a_proxy_that_is_none_is_said_at_set_up(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="The proxy is not") as refused:
        Reckoner("http://127.0.0.1:8000", "a.key", proxy=address)
    assert "secret" not in str(refused.value)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("HTTP_PROXY", address)
    with pytest.raises(ConfigurationError, match="http_proxy of the environment"):
        Reckoner("http://127.0.0.1:8000", "a.key")
    Reckoner("http://127.0.0.1:8000", "a.key", proxy="").close()
