"""Clients that send a body slowly, without any key, take no place of a chat."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from project.gateway.reading import Reading
from tests.project.gateway.test_chats import chat

HEAD = "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer nobody.knows\r\n"


@contextlib.contextmanager
def connected(port: int, sent: str) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall(sent.encode())
        yield connection


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.xdist_group("gateway")
def test_a_chat_is_answered_beside_many_that_do_not_send_theirs(client: Any, helper: Any, gateway: Any) -> None:
    """The gateway of the tests answers two chats at once."""
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(connected(gateway.port, f"{HEAD}Content-Length: 1000\r\n\r\n" + "{"))
        for _ in range(3):
            assert client.chat.completions.create(**chat()).choices[0].message.content


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.xdist_group("gateway")
@pytest.mark.parametrize("length", ["Content-Length: 5000000", "Transfer-Encoding: chunked"])
def test_who_has_no_key_is_turned_away_before_a_large_body_is_read(gateway: Any, length: str) -> None:
    with connected(gateway.port, f"{HEAD}{length}\r\n\r\n") as connection:
        assert connection.recv(1 << 16).split()[1] == b"401"


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.xdist_group("gateway")
@pytest.mark.parametrize(
    ("header", "status"),
    [("X-Reckoner-Unit: J\xf6rg", b"400"), ("X-Reckoner-Episode: \xff", b"400"), ("X-Request-Id: \xff", b"401")],
)
def test_headers_that_are_not_utf_8_are_a_fault_of_the_caller(gateway: Any, header: str, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), 20) as connection:
        body = json.dumps(chat())
        connection.sendall(f"{HEAD}{header}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode("latin-1"))
        answer = connection.recv(1 << 16)
        assert answer.split()[1] == status, answer
    with socket.create_connection(("127.0.0.1", gateway.port), 20) as connection:
        connection.sendall(HEAD.replace("nobody", "n\xf6body").encode("latin-1") + b"Content-Length: 2\r\n\r\n{}")
        assert connection.recv(1 << 16).split()[1] == b"401"


class Request(SimpleNamespace):
    """What a place needs of a request: an address, and a connection that can be cut."""

    def __init__(self, address: str) -> None:
        super().__init__(remote=address, cut=False)
        self.transport = SimpleNamespace(abort=lambda: setattr(self, "cut", True))

    __hash__ = object.__hash__


def test_the_oldest_of_an_address_and_then_of_all_gives_up_its_place() -> None:
    reading: Any = Reading(most=4, of_address=2)
    with contextlib.ExitStack() as stack:

        def begin(address: str) -> Request:
            request = Request(address)
            stack.enter_context(reading.place_for(request))
            return request

        first, second, third = begin("a"), begin("a"), begin("a")
        assert [one.cut for one in (first, second, third)] == [True, False, False]
        others = [begin("b"), begin("b"), begin("c")]
        assert [one.cut for one in (second, third, *others)] == [True, False, False, False, False]
        with reading.place_for(Request("d")):
            assert third.cut
    assert not reading._unread and not reading._addresses
