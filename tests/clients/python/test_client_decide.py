"""Asking an agent through the client, with a real model server."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from reckoner_client import Reckoner, Refused, Unavailable, uuid7

from decisions.models import Decision
from models_registry.backends.outbound import close_clients
from tests.clients.python.gateway import Gateway
from tools.factories import OPTIONS
from tools.model_server import running_model_server


@pytest.mark.django_db(transaction=True)
class TestWithoutAModel:
    def test_what_the_api_refuses_is_raised_with_its_reason(self, client: Reckoner, key: str) -> None:
        with pytest.raises(Refused) as caught:
            client.decide("nobody", {"text": "a flight"})
        assert (caught.value.status, caught.value.code) == (404, "unknown_agent")
        assert caught.value.request_id
        with pytest.raises(Refused) as caught:
            client.decide("filer", {"text": "a flight"}, options=[])
        assert caught.value.fields[0]["field"].endswith("options")
        assert Decision.objects.count() == 0

    def test_when_nobody_answers_it_is_unavailable_in_time(self, make_client: Callable[..., Reckoner]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            nobody = make_client(f"http://127.0.0.1:{free.getsockname()[1]}")
            with pytest.raises(Unavailable):
                nobody.decide("filer", {}, timeout=0.5)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    shelf = tmp_path_factory.mktemp("client") / "artifacts"
    with running_model_server(shelf, "for-the-client") as address:
        yield shelf, address


@pytest.fixture
def store(server: tuple[Path, str], settings: Any) -> Iterator[Path]:
    settings.ARTIFACTS, settings.MODEL_SERVER_URL = str(server[0]), server[1]
    settings.MODEL_SERVER_TOKEN = "for-the-client"
    yield server[0]
    close_clients()


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
class TestWithAModel:
    def test_an_agent_decides_once_for_each_id(
        self, base_version: Any, gateway: Gateway, make_client: Callable[..., Reckoner]
    ) -> None:
        client = make_client(gateway.url)
        answer = client.decide("filer", {"text": "flight hotel"}, unit="note-17", timeout=60)
        assert answer.action in OPTIONS
        assert answer.propensity == answer.probabilities[answer.action]
        assert sum(answer.probabilities.values()) == pytest.approx(1)
        assert (answer.model_version, answer.variant, answer.fallback) == ("filer:1", None, False)
        assert Decision.objects.get(id=answer.decision_id).unit == "note-17"

        gateway.plan.extend([(503, {}), "lose the answer", "break"])
        chosen = uuid7()
        again = client.decide("filer", {"text": "bank tax"}, id=chosen, timeout=60)
        assert again.decision_id == chosen
        assert client.decide("filer", {"text": "bank tax"}, id=chosen, timeout=60) == again
        assert Decision.objects.count() == 2
