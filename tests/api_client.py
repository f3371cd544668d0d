"""Clients of /api/v1: with a key, as a person, or as nobody."""

from __future__ import annotations

import json
from typing import Any

from django.test import Client

from tests.documented_statuses import find_undocumented


class ApiClient:
    """Calls /api/v1. Bodies are JSON (or raw bytes); answers are Django's, with `.json()`.

    A fault of the server answers 500 as it would in production, so that a test on status codes sees it. Any other
    status is one that OpenAPI states for the operation.
    """

    def __init__(self, token: str | None, key: Any = None, user: Any = None) -> None:
        self.token = token
        self.key = key
        self._client = Client(raise_request_exception=False)
        if user is not None:
            self._client.force_login(user)

    def request(
        self, method: str, path: str, body: Any = None, *, media: str = "application/json", **headers: str
    ) -> Any:
        url = path if path.startswith("/") else f"/api/v1/{path}"
        if self.token is not None:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        if body is None:
            answer = self._client.generic(method, url, headers=headers)
        else:
            data = body if isinstance(body, bytes) else json.dumps(body, default=str).encode()
            answer = self._client.generic(method, url, data, content_type=media, headers=headers)
        assert (fault := find_undocumented(method, url, answer.status_code)) is None, fault
        return answer

    def get(self, path: str, **headers: str) -> Any:
        return self.request("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.request("POST", path, body, **headers)


class ApiMaker:
    """`api("route:read")`, `api()` for an admin key, `api.of(workspace, …)`, `api.person(user)`, `api.anonymous()`."""

    def __init__(self, workspace: Any) -> None:
        self.workspace = workspace

    def __call__(self, *scopes: str, **key: Any) -> ApiClient:
        return self.of(self.workspace, *scopes, **key)

    def of(self, workspace: Any, *scopes: str, **key: Any) -> ApiClient:
        from workspaces.access.actors import system
        from workspaces.access.services import create_api_key

        made = create_api_key(by=system(workspace), name="test", scopes=scopes or ("admin",), **key)
        return ApiClient(made.token, made.key)

    def person(self, user: Any) -> ApiClient:
        """By the person's session, as the pages' own scripts call."""
        return ApiClient(None, user=user)

    def anonymous(self) -> ApiClient:
        return ApiClient(None)
