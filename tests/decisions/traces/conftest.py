"""Ways to send spans as exporters do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from decisions.traces.spans import Span
from tests.decisions.traces.client_runs import running_web
from tests.decisions.traces.spans_made import as_json, as_protobuf

PROTOBUF, JSON = "application/x-protobuf", "application/json"


class Exporter:
    def __init__(self, token: str | None) -> None:
        self.token = token
        self._client = Client(raise_request_exception=False)

    def post(self, body: bytes, media_type: str = PROTOBUF, **headers: str) -> Any:
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        headers["Content-Type"] = media_type  # which the test client leaves out beside an empty body
        return self._client.generic("POST", "/v1/traces", body, content_type=media_type, headers=headers)

    def send(self, *spans: Span, media_type: str = PROTOBUF) -> Any:
        answer = self.post((as_json if media_type == JSON else as_protobuf)(*spans), media_type)
        assert answer.status_code == 200, answer.content
        return answer


@pytest.fixture
def exporter(api: Any) -> Exporter:
    return Exporter(api("decisions:write").token)


@pytest.fixture
def exporter_of(api: Any) -> Callable[..., Exporter]:
    """`exporter_of(workspace, *scopes)`; without a workspace: nobody's."""
    return lambda workspace=None, *scopes: Exporter(api.of(workspace, *scopes).token if workspace else None)


@pytest.fixture(scope="module")
def web(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the web process, beside the tests' database."""
    with running_web(tmp_path_factory.mktemp("web")) as url:
        yield url
