"""Servers whose answers are too long, or never end: each costs a bounded amount of memory and time."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from models_registry.backends import chatting, outbound
from models_registry.backends.chatting import Attempt, ChatClients
from models_registry.backends.endpoint import Endpoint, WriteItem
from models_registry.backends.openai import OpenAIClient
from models_registry.backends.places import Place
from models_registry.backends.prompts import Prompt
from models_registry.errors import BackendUnavailable
from models_registry.models import BackendKind

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nConnection: close\r\n\r\n"
PIECE = b'data: {"choices": [{"index": 0, "delta": {"content": "word"}}]}\n\n'


@pytest.fixture
def pour() -> Iterator[Callable[[bytes, bytes], Endpoint]]:
    """A server that answers with this kind of content, again and again the same bytes until nobody takes them."""
    listeners: list[socket.socket] = []
    silence = threading.Event()

    def serve(listener: socket.socket, kind: bytes, piece: bytes) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.recv(1 << 16)
                    connection.sendall(HEAD % kind)
                    while piece:
                        connection.sendall(piece)
                    silence.wait()
                except OSError:
                    pass

    def start(kind: bytes, piece: bytes) -> Endpoint:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=serve, args=(listener, kind, piece), daemon=True).start()
        return Endpoint(
            "server", BackendKind.OPENAI, f"http://127.0.0.1:{listener.getsockname()[1]}/v1", timeout_seconds=5
        )

    yield start
    silence.set()
    for listener in listeners:
        listener.close()
    outbound.close_clients()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (outbound, chatting):
        monkeypatch.setattr(module, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(chatting, "MOST_LINE", 1 << 17)


def ask(endpoint: Endpoint, *, stream: bool) -> int:
    """How many chunks came before the answer ended. Raises BackendUnavailable."""

    async def run() -> int:
        clients, count = ChatClients(), 0
        attempts = [Attempt(cast(Any, None), Place(endpoint, "m"))]
        try:
            if not stream:
                await clients.ask_whole(attempts, {})
                return 1
            streamed = await clients.ask_stream(attempts, {})
            async for chunks in streamed.chunks:
                count += len(chunks)
            return count
        finally:
            await clients.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("kind", "piece", "stream", "reason"),
    [
        (b"text/event-stream", PIECE * 100, True, "answered with more than"),
        (b"text/event-stream", PIECE.replace(b"word", b"word" * 5_000), True, "sent more than 1 MiB of words"),
        (b"text/event-stream", b"data: " + b"a" * 10_000, True, "sent a line of more than"),
        (b"text/event-stream", b": ping\n" * 1000, True, "answered with more than"),
        (b"application/json", b"[" * 10_000, False, "answered with more than"),
    ],
    ids=["pieces", "words", "one line", "comments", "a whole answer"],
)
def test_a_chat_s_answer_without_end_is_broken_off(
    pour: Any, kind: bytes, piece: bytes, stream: bool, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "words" in reason:
        monkeypatch.setattr(chatting, "MOST_BYTES", 1 << 22)
    with pytest.raises(BackendUnavailable, match=reason):
        ask(pour(kind, piece), stream=stream)


@pytest.mark.parametrize("stream", [False, True])
def test_silence_is_called_so(pour: Any, stream: bool) -> None:
    endpoint = dataclasses.replace(pour(b"application/json", b""), timeout_seconds=0.2)
    with pytest.raises(BackendUnavailable, match=r"did not answer within 0\.2 s"):
        ask(endpoint, stream=stream)


def test_an_answer_that_never_ends_is_broken_off_in_time(pour: Any, settings: Any) -> None:
    settings.LONGEST_ANSWER_SECONDS = 0.2
    for kind, stream in ((b"text/event-stream", True), (b"application/json", False)):
        with pytest.raises(BackendUnavailable, match="not done after"):
            ask(pour(kind, b" " if not stream else b"\n"), stream=stream)


def test_a_written_answer_without_end_is_broken_off(pour: Any) -> None:
    item = WriteItem(model="m", prompt=Prompt("x"), max_prompt_tokens=10, max_tokens=10, temperature=0.0)
    for piece, seconds in ((b"[" * 10_000, 5.0), (b" ", 0.3)):
        with pytest.raises(BackendUnavailable, match=r"more than|did not answer within"):
            OpenAIClient().write(pour(b"application/json", piece), [item], seconds=seconds)
