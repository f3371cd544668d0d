"""Two hundred streams at once to a server that takes connections slowly, and retries of a refused connection."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event, Thread
from typing import Any

import pytest

from models_registry.backends.chatting import Attempt, ChatClients
from models_registry.backends.endpoint import Endpoint
from models_registry.backends.places import Place
from models_registry.errors import BackendUnavailable
from models_registry.models import Backend, BackendKind

STREAMS = 200
CHUNK = {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
ANSWER += b"data: " + json.dumps(CHUNK).encode() + b"\n\ndata: [DONE]\n\n"


def listen(port: int = 0, backlog: int = 64) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(backlog)
    return listening


def answer(connection: socket.socket) -> None:
    with closing(connection):
        asked = b""
        while b"\r\n\r\n" not in asked:
            if not (piece := connection.recv(65536)):
                return  # nobody waits for it any longer
            asked += piece
        connection.sendall(ANSWER)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass


@pytest.fixture
def slow_server() -> Iterator[int]:
    """Takes a hundred connections a second, and 64 wait: what is beyond them the kernel drops. The port."""
    listening, over = listen(), Event()

    def take() -> None:
        with ThreadPoolExecutor(64) as pool:
            while not over.is_set():
                try:
                    connection, _ = listening.accept()
                except TimeoutError:
                    continue
                pool.submit(answer, connection)
                time.sleep(0.01)

    listening.settimeout(0.2)
    thread = Thread(target=take, daemon=True)
    thread.start()
    yield listening.getsockname()[1]
    over.set()
    thread.join(30)
    listening.close()


def attempt_at(port: int, **fields: Any) -> Attempt:
    endpoint = Endpoint(name="own", kind=BackendKind.OPENAI, url=f"http://127.0.0.1:{port}/v1", **fields)
    return Attempt(version=None, place=Place(endpoint, "m"))  # type: ignore[arg-type]


async def stream(clients: ChatClients, attempt: Attempt) -> str:
    try:
        streamed = await clients.ask_stream([attempt], {"messages": [{"role": "user", "content": "hi"}]})
        parts = [chunk["choices"][0]["delta"] async for chunks in streamed.chunks for chunk in chunks]
        return "".join(part["content"] for part in parts)
    except BackendUnavailable as error:
        return error.message


def ask(attempt: Attempt, count: int = 1) -> list[str]:
    async def run() -> list[str]:
        clients = ChatClients()
        try:
            return await asyncio.gather(*(stream(clients, attempt) for _ in range(count)))
        finally:
            await clients.close()

    return asyncio.run(run())


@pytest.mark.slow
def test_of_two_hundred_streams_at_once_none_is_lost(slow_server: int) -> None:
    defaults = Backend()
    attempt = attempt_at(slow_server, connect_seconds=defaults.connect_seconds, retries=defaults.retries)
    assert ask(attempt, STREAMS) == ["ok"] * STREAMS


@pytest.mark.slow
def test_a_connection_that_was_refused_is_tried_again() -> None:
    """The server comes up between two tries."""
    with closing(listen()) as taken:
        port = taken.getsockname()[1]
    [lost] = ask(attempt_at(port, retries=0))
    assert "does not answer" in lost

    def come_up() -> None:
        time.sleep(0.3)
        with closing(listen(port)) as listening:
            answer(listening.accept()[0])

    thread = Thread(target=come_up, daemon=True)
    thread.start()
    assert ask(attempt_at(port, retries=5)) == ["ok"]
    thread.join(30)
