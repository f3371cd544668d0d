"""Whatever says "later" says when: every 429 and 503 of web, gateway and model server has a Retry-After."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path
from rest_framework.request import Request
from rest_framework.views import APIView

from models_registry.errors import BackendBusy, BackendUnavailable, StoreUnavailable
from project.gateway.app import Gateway
from project.middleware import watch
from workspaces.errors import DiskFull, InvalidInput, ReckonerError, TooManyRequests, Unavailable

STATUSES = [(503, "1"), (429, "1"), (200, None), (404, None), (507, None)]
ERRORS: list[tuple[ReckonerError, str | None]] = [
    (Unavailable("away"), "1"),
    (BackendUnavailable("away"), "1"),
    (BackendBusy("busy"), "1"),
    (StoreUnavailable("away"), "1"),
    (TooManyRequests("wait", wait=42), "42"),
    (DiskFull("full"), None),
    (InvalidInput("wrong"), None),
]


@login_not_required
def page(request: HttpRequest, status: int) -> HttpResponse:
    return HttpResponse(status=status)


class Endpoint(APIView):
    authentication_classes, permission_classes = (), ()

    def get(self, request: Request, number: int) -> None:
        raise ERRORS[number][0]


urlpatterns = [path("page/<int:status>", page), path("api/error/<int:number>", login_not_required(Endpoint.as_view()))]


@pytest.mark.urls(__name__)
class TestWeb:
    @pytest.mark.parametrize(("status", "seconds"), STATUSES)
    def test_pages(self, status: int, seconds: str | None) -> None:
        assert Client().get(f"/page/{status}").headers.get("Retry-After") == seconds

    @pytest.mark.parametrize("number", range(len(ERRORS)))
    def test_the_api(self, number: int) -> None:
        error, seconds = ERRORS[number]
        answer = Client().get(f"/api/error/{number}")
        assert (answer.status_code, answer.headers.get("Retry-After")) == (error.status, seconds)

    @pytest.mark.parametrize("place", ["/page/200", "/api/error/0", "/readyz"])
    def test_a_database_that_is_known_to_be_away(self, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watch, "is_away", True)
        monkeypatch.setattr(watch, "look", lambda: None)
        answer = Client().get(place)
        assert (answer.status_code, answer.headers.get("Retry-After")) == (503, "1")


def test_the_gateway() -> None:
    async def later(request: web.Request) -> web.Response:
        return web.Response(status=int(request.match_info["status"]))

    async def fail(request: web.Request) -> web.Response:
        raise ERRORS[int(request.match_info["number"])][0]

    async def ask() -> list[str | None]:
        app = Gateway().build_app()
        app.router.add_get("/later/{status}", later)
        app.router.add_get("/error/{number}", fail)
        async with TestClient(TestServer(app)) as client:
            paths = [f"/later/{status}" for status, _ in STATUSES] + [f"/error/{n}" for n in range(len(ERRORS))]
            return [(await client.get(path)).headers.get("retry-after") for path in paths]

    assert asyncio.run(ask()) == [seconds for _, seconds in (*STATUSES, *ERRORS)]


@pytest.mark.slow  # loads torch
def test_the_model_server() -> None:
    from starlette.testclient import TestClient as StarletteClient

    from training.engine.serving.faults import STATUS, Fault
    from training.engine.serving.routes import build_app

    def refuse(code: Any) -> Any:
        def raise_fault() -> None:
            raise Fault(code, "not now")

        return SimpleNamespace(is_alive=lambda: False, pool=SimpleNamespace(resident=raise_fault))

    def ask(path: str, code: str) -> httpx.Response:
        app = build_app(SimpleNamespace(served=list), refuse(code), None)  # type: ignore[arg-type]
        return StarletteClient(app).get(path)  # a thread of its own: a browser's tests leave a loop in this one

    for code, status in STATUS.items():
        answer = ask("/v1/models", code)
        waits = answer.headers.get("retry-after")
        assert (answer.status_code, waits) == (status, "1" if status in (429, 503) else None), code
    unready = ask("/readyz", "internal_error")
    assert (unready.status_code, unready.headers.get("retry-after")) == (503, "1")
