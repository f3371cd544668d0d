"""Large chats of one key or workspace leave room for those of others."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from models_registry.models import Call
from project.gateway.held_bodies import Full, HeldBodies
from tests.project.gateway.conftest import PLAIN
from tests.project.gateway.test_chats import chat, wait_until
from workspaces.access.services import create_api_key
from workspaces.errors import TooManyRequests

MEGABYTE = 1_000_000


def photo(size: int) -> dict[str, Any]:
    url = "data:image/png;base64," + "A" * size
    return chat(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}])


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.xdist_group("gateway")
def test_a_key_beyond_its_share_is_told_when_to_ask_again_and_others_are_answered(
    ask: Any, gateway: Any, helper: Any, by: Any, key: Any
) -> None:
    """The gateway of the tests gives a key 3 MB."""
    server = helper[2]
    server.held.clear()
    first = threading.Thread(target=lambda: ask.post("/chat/completions", json=photo(2 * MEGABYTE)))
    first.start()
    wait_until(lambda: Call.objects.filter(state="open").exists())
    for content in (photo(2 * MEGABYTE), {"no": "chat", "x": "A" * 2 * MEGABYTE}):
        refused = ask.post("/chat/completions", json=content)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert int(refused.headers["retry-after"]) >= 1
    other = create_api_key(by=by, name="other", scopes=["route:read"]).token
    server.held.set()
    headers = {"Authorization": f"Bearer {other}"}
    assert httpx.post(
        f"{gateway.url}/v1/chat/completions", json=photo(MEGABYTE // 2), headers=headers, **PLAIN
    ).is_success
    first.join()
    assert ask.post("/chat/completions", json=photo(2 * MEGABYTE)).is_success, "the room is free again"


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.xdist_group("gateway")
def test_a_body_that_has_not_come_has_its_room_and_gives_it_back(ask: Any, gateway: Any, helper: Any, key: Any) -> None:
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {key}\r\n"
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 20))
        connection.sendall(f"{head}Content-Length: {2 * MEGABYTE}\r\n\r\n{{".encode())
        wait_until(lambda: ask.post("/chat/completions", json=photo(2 * MEGABYTE)).status_code == 429)
    wait_until(lambda: ask.post("/chat/completions", json=photo(2 * MEGABYTE)).is_success)


@pytest.mark.slow
def test_each_workspace_and_key_leaves_half_of_what_there_is_for_others() -> None:
    bodies = HeldBodies(1_600)

    def actor(workspace: str, name: str) -> Any:
        return SimpleNamespace(workspace=SimpleNamespace(id=workspace), name=name)

    with contextlib.ExitStack() as stack:

        def fill(workspace: str, name: str) -> int:
            """How much the key gets, by bodies of 1."""
            body = stack.enter_context(bodies.hold())
            body.belongs_to(actor(workspace, name))
            with contextlib.suppress(Full, TooManyRequests):
                for size in range(1, 1_601):
                    body.grow_to(size)
            return body.size

        assert [fill("a", "one"), fill("a", "two"), fill("a", "three")] == [400, 200, 100]
        assert fill("b", "one") == (1_600 - 700) // 4
        late = stack.enter_context(bodies.hold())
        late.belongs_to(actor("a", "one"))
        with pytest.raises(TooManyRequests) as refused:
            late.grow_to(1)
        assert refused.value.wait >= 1
        late.belongs_to(actor("c", "one"))
        with pytest.raises(Full):
            late.grow_to(169)
        late.grow_to(168)
        small = stack.enter_context(bodies.hold())
        small.grow_to(64_000)  # nobody's
    assert not bodies._held
