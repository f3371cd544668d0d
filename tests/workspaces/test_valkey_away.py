"""Requests and jobs go on while Valkey is away, whatever redis-py says of it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import redis
from django.core.cache import caches
from kombu.exceptions import OperationalError

from jobs import hints
from workspaces.access import actors
from workspaces.http import throttling

ERRORS = [
    redis.ConnectionError("Connection refused"),
    redis.TimeoutError("Timeout reading from socket"),
    redis.ResponseError("OOM command not allowed when used memory > 'maxmemory'."),
    ValueError("I/O operation on closed file."),
    AttributeError("'NoneType' object has no attribute 'readline'", name="readline", obj=None),
    ConnectionResetError(104, "Connection reset by peer"),
]
SAYS = [type(error).__name__ for error in ERRORS]


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    error: Exception = request.param

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(redis.client.Pipeline, "execute", fail)
    monkeypatch.setattr(redis.Redis, "execute_command", fail)


@pytest.mark.parametrize("fails", ERRORS, indirect=True, ids=SAYS)
@pytest.mark.django_db
def test_requests_are_not_limited_and_nothing_is_a_fault(
    fails: None, workspace: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.KEY_REQUESTS_A_MINUTE = 1
    settings.CACHES = {
        **settings.CACHES,
        "default": {"BACKEND": "workspaces.storage.cache.SharedCache", "LOCATION": settings.REDIS_URL},
    }
    monkeypatch.setattr(throttling, "_shares", {})
    monkeypatch.setattr(throttling, "_away_until", 0.0)
    by = actors.system(workspace)
    for _ in range(3):
        throttling.count_request(by)
    cache, name = caches["default"], uuid.uuid4().hex
    cache.set(name, 1)
    assert (cache.get(name), cache.incr(name)) == (1, 2)
    with pytest.raises(ValueError, match="not found"):
        cache.incr(f"{name}-none")


@pytest.mark.parametrize("error", [OperationalError("refused"), *ERRORS], ids=["OperationalError", *SAYS])
def test_a_hint_that_is_not_sent_is_left_to_the_sweeper(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(hints.current_app, "send_task", fail)
    assert hints.send_hint(uuid.uuid4(), "default") is False
