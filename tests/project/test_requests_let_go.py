"""An answered request of the API is gone at once, and its body with it, without the collector of cycles."""

import gc
import io
import json
import sys
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest

from tests.decisions.conftest import body
from workspaces.ids import uuid7

pytestmark = pytest.mark.django_db(transaction=True)  # an end of a request takes back what is open


def send(application: WSGIHandler, token: str, path: str, sent: Any, key: str | None) -> str:
    """As a server does: nothing but the application sees the request."""
    content = json.dumps(sent).encode()
    environ = {
        "REQUEST_METHOD": "POST", "PATH_INFO": path, "QUERY_STRING": "", "SCRIPT_NAME": "", "REMOTE_ADDR": "127.0.0.1",
        "SERVER_NAME": "testserver", "SERVER_PORT": "80", "HTTP_HOST": "testserver", "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_AUTHORIZATION": f"Bearer {token}", "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(content)), "wsgi.input": io.BytesIO(content), "wsgi.errors": sys.stderr,
        "wsgi.url_scheme": "http", **({"HTTP_IDEMPOTENCY_KEY": key} if key else {}),
    }  # fmt: skip
    told: list[str] = []
    response = application(environ, lambda status, headers: told.append(status))
    b"".join(response)
    response.close()
    return told[0][:3]


def _requests() -> list[WSGIRequest]:
    return [thing for thing in gc.get_objects() if type(thing) is WSGIRequest]  # isinstance would wake lazy objects


@pytest.mark.parametrize("key", [None, "batch"])
@pytest.mark.parametrize("size", [1, 20])
def test_a_recorded_batch_leaves_no_request_behind(api: Any, agent: Any, key: str | None, size: int) -> None:
    application, token = WSGIHandler(), api("decisions:write").token
    first, second = ([body(id=str(uuid7())) for _ in range(size)] for _ in range(2))
    send(application, token, "/api/v1/decisions", first, None)  # loads what is loaded once
    gc.collect()
    gc.disable()
    before = {id(thing) for thing in _requests()}  # other tests' that somebody still holds
    try:
        assert send(application, token, "/api/v1/decisions", second, key) == "201"
        left = [thing.path for thing in _requests() if id(thing) not in before]
    finally:
        gc.enable()
    assert left == []
