"""A gateway process beside the test database, agents that chat, and servers that answer as they are told."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from django.db import connection

from project.gateway.document import build_document
from tests.openai_server import OpenAIServer
from tools.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
BACKEND_KEY = "only-for-this-test"
PLAIN: dict[str, Any] = {"trust_env": False, "verify": False}
"""Without TLS. A client that might need them reads all certificates first, which takes longer than any test's calls."""


class Gateway:
    """The process, which is started again where a test has killed it."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "gateway.log"
        self.port, self.model_server_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        server, _, _ = os.environ["DATABASE_URL"].rpartition("/")
        self.environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "DATABASE_URL": f"{server}/{connection.settings_dict['NAME']}",
            "RECKONER_FALLBACK_SECONDS": "0.3",
            "RECKONER_GATEWAY_CHATS": "2",
            "RECKONER_GATEWAY_PROCESSES": "1",
            "RECKONER_CHAT_BODY_BYTES": "3000000",
            "RECKONER_CHATS_BYTES": "12000000",
            "TINY_API_KEY": BACKEND_KEY,
            "RECKONER_BACKEND_KEYS": f"TINY_API_KEY=http://127.0.0.1:{self.model_server_port}",
        }
        self.process: subprocess.Popen[bytes] | None = None

    def ensure(self) -> None:
        if self.process is not None and self.process.poll() is None:
            return
        with self.log.open("a") as log:
            command = [sys.executable, "-m", "project.gateway", "--port", str(self.port)]
            self.process = subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=log, stderr=log)
        for _ in range(3000):
            assert self.process.poll() is None, self.log.read_text()
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/readyz", **PLAIN).status_code == 200:
                    return
            time.sleep(0.02)
        raise AssertionError(self.log.read_text())

    def kill(self) -> None:
        """Its first process, and those that serve."""
        assert self.process is not None
        for process in (self.process, *psutil.Process(self.process.pid).children()):
            process.kill()
        self.process.wait(30)

    def stop(self) -> int:
        if self.process is None or self.process.poll() is not None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


_started: list[Gateway] = []


@pytest.fixture(scope="session")
def one_gateway(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    made = Gateway(tmp_path_factory.mktemp("gateway"))
    _started.append(made)
    try:
        yield made
    finally:
        if made.process is not None and made.process.poll() is None:
            made.kill()


def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """It serves every file of this folder, and no other test has it beside itself at its database."""
    if _started and (nextitem is None or Path(__file__).parent not in nextitem.path.parents):
        assert _started[0].stop() == 0, _started[0].log.read_text()


@pytest.fixture
def gateway(transactional_db: None, one_gateway: Gateway) -> Gateway:
    one_gateway.ensure()
    return one_gateway


@pytest.fixture
def key(by: Any) -> str:
    from workspaces.access.services import create_api_key

    return str(create_api_key(by=by, name="chats", scopes=["route:read"]).token)


@pytest.fixture
def ask(gateway: Gateway, key: str) -> Iterator[httpx.Client]:
    """A plain client, which shows bytes and leaves. What it hears is held to the gateway's OpenAPI document."""
    headers = {"Authorization": f"Bearer {key}"}
    hooks: Any = {"response": [_refuse_undocumented]}
    with httpx.Client(base_url=f"{gateway.url}/v1", headers=headers, timeout=30, event_hooks=hooks, **PLAIN) as client:
        yield client


STATED = build_document()["paths"]
OWN_HEADERS = ("x-reckoner-", "x-ratelimit-", "x-should-", "retry-", "idempotent-")


def _refuse_undocumented(answer: httpx.Response) -> None:
    path, method = answer.request.url.path, answer.request.method.lower()
    if (operation := STATED.get(path, {}).get(method)) is None or answer.status_code == 500:
        return
    stated = operation["responses"].get(str(answer.status_code))
    assert stated is not None, f"{method} {path} answered {answer.status_code}"
    known = {header.lower() for header in stated["headers"]}
    assert {header for header in answer.headers if header.startswith(OWN_HEADERS)} <= known, path


@pytest.fixture
def client(gateway: Gateway, key: str) -> Iterator[Any]:
    """OpenAI's own."""
    import openai

    with (
        httpx.Client(**PLAIN) as http,
        openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=key, http_client=http, max_retries=0) as made,
    ):
        yield made


@pytest.fixture
def chatting(by: Any) -> Callable[..., Any]:
    """`chatting("helper", "text")`: an agent that chats."""
    from decisions.agents.services import AgentSetup, create_agent

    def make(slug: str = "helper", action_space: str = "text") -> Any:
        setup = AgentSetup(prompt_template="{{ input }}", action_space=action_space, max_completion_tokens=99)
        return create_agent(by=by, slug=slug, name=slug.title(), setup=setup)

    return make


@pytest.fixture
def deploy(by: Any) -> Callable[..., Any]:
    """`deploy(agent, "gpt", server.url)`: the next version of the agent's model, remote, on a backend of its own; with
    `version` another place of that version."""
    from models_registry.versions.services import NewVersion, register_version
    from tools.factories import BackendFactory, DeploymentFactory

    def put(agent: Any, name: str, url: str, *, version: Any = None, remote_name: str = "", **fields: Any) -> Any:
        if version is None:
            new = NewVersion(remote_name=remote_name or name, method="remote")
            version = register_version(by=by, model=agent.registered_model, new=new)
        fields = {"retries": 0, "price_in": 1, "price_out": 10, "timeout_seconds": 10} | fields
        priority = version.deployments.count()
        backend = BackendFactory(workspace=by.workspace, url=url, name=name, **fields)
        DeploymentFactory(version=version, backend=backend, priority=priority)
        return version

    return put


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a server that takes connections and says nothing, as a stopped process does."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


@pytest.fixture
def helper(chatting: Callable[..., Any], deploy: Callable[..., Any], serve: Callable[[], OpenAIServer]) -> Any:
    """(agent, version, server): an agent of texts whose champion is on the server."""
    agent, server = chatting(), serve()
    server.pick = "Take the early train to Oslo"
    return agent, deploy(agent, "gpt", server.url), server
