"""A real Reckoner for the Python client: its address, a key, agents of two kinds, and clients that are closed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from reckoner_client import Reckoner, Refused, Sending

from tests.clients.python.gateway import Gateway, running_gateway

ROOT = Path(__file__).resolve().parents[3]
# A test waits for what it asked for, not for a clock: batches leave at once and pauses are short.
QUICK = {"linger_seconds": 0.02, "longest_pause_seconds": 0.1}


@pytest.fixture(autouse=True)
def no_running_loop() -> Iterator[None]:
    """Playwright's synchronous driver leaves its loop running in the thread of a worker that had browser tests."""
    running = asyncio.events._get_running_loop()
    asyncio.events._set_running_loop(None)
    yield
    asyncio.events._set_running_loop(running)


@pytest.fixture
def key(workspace: Any) -> str:
    from workspaces.access.actors import system
    from workspaces.access.services import create_api_key

    return str(create_api_key(by=system(workspace), name="client", scopes=("admin",)).token)


@pytest.fixture
def assistant(by: Any) -> Any:
    """An agent whose action is text: what agents with tools have."""
    from decisions.agents.services import AgentSetup, create_agent

    setup = AgentSetup(prompt_template="{{ query }}", action_space="text")
    return create_agent(by=by, slug="assistant", name="Assistant", kind="CUSTOM", setup=setup)


@pytest.fixture
def gateway(live_server: Any) -> Iterator[Gateway]:
    with running_gateway(live_server.url) as found:
        yield found


@pytest.fixture
def refusals() -> list[Refused]:
    """What the clients of this test were told that it was not kept."""
    return []


@pytest.fixture
def make_client(
    live_server: Any, key: str, agent: Any, refusals: list[Refused], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Reckoner]]:
    """`make_client(url=…, queue_items=…)`: settings of `Sending` by name, the rest is the client's."""
    made: list[Reckoner] = []
    monkeypatch.setenv("NO_PROXY", "*")  # whatever this machine's environment says

    def make(url: str | None = None, key_: str | None = None, **given: Any) -> Reckoner:
        sending = {name: given.pop(name) for name in list(given) if name in Sending.__dataclass_fields__}
        client = Reckoner(
            url or live_server.url, key_ or key, on_refused=refusals.append, sending=Sending(**QUICK | sending), **given
        )
        made.append(client)
        return client

    yield make
    for client in made:
        client.close(0)


@pytest.fixture
def client(make_client: Callable[..., Reckoner]) -> Reckoner:
    return make_client()


@pytest.fixture
def nothing_went_wrong(client: Reckoner, refusals: list[Refused]) -> Iterator[None]:
    """Whatever a test records is kept by the API, and none of it was a fault of the client's."""
    yield
    assert refusals == []
    assert (client.stats().faults, client.stats().dropped) == (0, 0)


@pytest.fixture
def run_host(live_server: Any, key: str, agent: Any, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a host's program in a process of its own, which must end well; its output."""

    def run(program: str, url: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "host.py"
        script.write_text(program, encoding="utf-8")
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "TMPDIR"}}
        settings = {"RECKONER_URL": url or live_server.url, "RECKONER_KEY": key, "PYTHONWARNINGS": "error"}
        settings["PYTHONPATH"] = str(ROOT / "clients/python")  # of this tree, wherever one is installed from
        done = subprocess.run(
            [sys.executable, str(script)],
            env=kept | settings | environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    return run
