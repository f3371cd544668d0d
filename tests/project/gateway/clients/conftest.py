"""Each client's program runs once in a session; the tests of its parts look at what it left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.project.gateway.clients.running import Client, Run, run_client
from tests.project.gateway.clients.travel_model import TravelModel
from tests.project.gateway.conftest import Gateway

_runs: dict[Client, Run | BaseException] = {}


@pytest.fixture
def travel_model() -> Iterator[TravelModel]:
    server = TravelModel()
    yield server
    server.stop()


@pytest.fixture
def run_of(
    gateway: Gateway,
    key: str,
    chatting: Callable[..., Any],
    deploy: Callable[..., Any],
    travel_model: TravelModel,
    tmp_path: Path,
) -> Callable[[Client], Run]:
    """`run_of(client)`: what the client read, and what was recorded of it. Skips where its packages cannot be had."""

    def run(client: Client) -> Run:
        if client not in _runs:
            deploy(chatting("helper"), "gpt", travel_model.url)
            try:
                _runs[client] = run_client(
                    client, url=f"{gateway.url}/v1", key=key, asked=travel_model.asked, folder=tmp_path
                )
            except (pytest.skip.Exception, AssertionError) as error:
                _runs[client] = error
        if isinstance(made := _runs[client], BaseException):
            raise made
        return made

    return run
