"""Where backends may be, and which addresses are connected to."""

import asyncio
import socket

import aiohttp
import pytest

from models_registry.backends.endpoint import Endpoint
from models_registry.backends.outbound import (
    async_session,
    async_timeout,
    close_clients,
    find_url_fault,
    http_client,
)
from models_registry.backends.pinned import AddressRefused, choose_address


@pytest.fixture(autouse=True)
def allowed(settings):
    settings.BACKEND_URLS = ["https://api.openai.com", "http://vllm:8000", "http://[::1]:9000"]
    yield
    close_clients()


@pytest.mark.parametrize(
    "url",
    ["https://api.openai.com/v1", "https://API.openai.com:443/v1", "http://vllm:8000/v1", "http://[::1]:9000/v1"],
)
def test_allowed_origins_may_be_used(url):
    assert find_url_fault(url) is None


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://api.openai.com/v1", "not allowed"),
        ("https://api.openai.com.evil.example/v1", "not allowed"),
        ("https://api.openai.com:8443/v1", "not allowed"),
        ("http://vllm/v1", "not allowed"),
        ("http://169.254.169.254/latest", "not allowed"),
        ("https://me:secret@api.openai.com/v1", "more than host and path"),
        ("https://api.openai.com/v1?key=secret", "more than host and path"),
        ("file:///etc/passwd", "not a URL"),
        ("api.openai.com/v1", "not a URL"),
        ("http://vllm:99999/v1", "not a URL"),
        ("http://vllm:8000/v1\r\nHost: x", "control characters"),
        ("http://vllm:8000\n/v1", "control characters"),
        ("http://vllm:8000/v1\t", "control characters"),
        (" http://vllm:8000/v1", "control characters"),
        *(
            (f"http://vllm:8000/v1{bad}", "control characters")
            for bad in "\0\x0b\x7f\x85\u2028\u2029\u200b\u202e\u3000"
        ),
        ("http://vllm\uff1a8000/v1", "not a URL"),
        ("http://vllm:8000\\@evil.example/v1", "more than host and path"),
        ("http://134744072:8000/v1", "not allowed"),
    ],
)
def test_others_are_refused(url, reason):
    fault = find_url_fault(url)
    assert fault is not None and reason in fault.reason and fault.field == "url"


OTHER_WAYS = ("64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::ffff:0:0", "fd00:ec2::254")
"""169.254.169.254 through NAT64 and 6to4, 0.0.0.0 as IPv6 writes it, and Amazon's address of the same service."""


def test_addresses_that_lead_to_credentials_of_clouds_are_never_connected_to():
    assert choose_address("x", ["169.254.169.254", "10.0.0.7"]) == "10.0.0.7"
    assert choose_address("x", ["fe80::1%eth0", "fd00::7"]) == "fd00::7"
    for bad in (
        ["169.254.169.254"],
        ["::ffff:169.254.169.254"],
        ["0.0.0.0"],
        ["224.0.0.1"],
        [],
        *([one] for one in OTHER_WAYS),
    ):
        with pytest.raises(AddressRefused, match="no address"):
            choose_address("x", bad)


def test_a_name_is_resolved_once_and_the_connection_goes_to_what_was_checked(serve, settings, monkeypatch):
    server = serve()
    port = int(server.origin.rpartition(":")[2])
    resolved = []

    def resolve(host, *rest, **options):
        resolved.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", resolve)
        client = http_client(f"http://models.example:{port}/v1", own=False)
        patched.setattr("models_registry.backends.outbound.socket.getaddrinfo", resolve)
        answer = client.post(f"http://models.example:{port}/v1/chat/completions", json={})
    assert answer.status_code == 200
    assert server.headers[0]["Host"] == f"models.example:{port}"
    assert resolved.count("models.example") == 1


def test_redirects_are_not_followed(serve):
    server, other = serve(), serve()
    server.answers.append((307, {}, {"Location": f"{other.url}/chat/completions"}))
    answer = http_client(server.url, own=False).post(f"{server.url}/chat/completions", json={})
    assert answer.status_code == 307 and other.asked == []


class TestTheGatewaysConnections:
    """In an event loop, to any server."""

    async def status(self, url: str, *, own: bool = False) -> int:
        timeout = async_timeout(Endpoint("x", "openai", url), 5.0)
        async with async_session(own=own) as session, session.post(url, json={}, timeout=timeout) as answer:
            return answer.status

    def test_an_allowed_address_is_connected_to(self, serve):
        server = serve()
        assert asyncio.run(self.status(f"{server.url}/chat/completions")) == 200
        assert len(server.asked) == 1

    @pytest.mark.parametrize("host", ["169.254.169.254", "0.0.0.0", "[fe80::1]", "[::ffff:169.254.169.254]"])
    def test_one_that_leads_elsewhere_is_not_whether_it_was_named_or_resolved(self, serve, host, monkeypatch):
        server = serve()
        port = server.origin.rpartition(":")[2]
        with pytest.raises(aiohttp.ClientConnectorError, match="no address that may be asked"):
            asyncio.run(self.status(f"http://{host}:{port}/v1/chat/completions"))

        async def resolve(*_, **__):
            found = [
                {"hostname": "models.example", "host": host.strip("[]"), "port": int(port), "proto": 6, "flags": 0}
            ]
            return [one | {"family": socket.AF_INET6 if ":" in host else socket.AF_INET} for one in found]

        monkeypatch.setattr("aiohttp.resolver.ThreadedResolver.resolve", resolve)
        with pytest.raises(aiohttp.ClientConnectorError, match="no address that may be asked"):
            asyncio.run(self.status(f"http://models.example:{port}/v1/chat/completions"))
        assert server.asked == []
