"""An admin of an instance's API, for benchmarks that use the product as its owner does."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import httpx

from tools.instance import Instance

PAUSE_SECONDS = 1.0
WAITING = ("queued", "running")
"""The states of exports, jobs and runs that are on their way."""


class Refusal(RuntimeError):
    """An answer other than 2xx; `code` is the API's error code, empty where the answer is no error of the API."""

    def __init__(self, asked: str, answer: httpx.Response) -> None:
        super().__init__(f"{asked}: {answer.status_code} {answer.text[:500]}")
        told = answer.json() if answer.headers.get("content-type", "").startswith("application/json") else {}
        self.code = str(told.get("error", {}).get("code", ""))


class Admin:
    """Calls `/api/v1` with a key of its own; `workspace` is a slug where the instance has several."""

    def __init__(self, instance: Instance, workspace: str = "") -> None:
        self.key = instance.make_key("bench", workspace=workspace)
        self.http = httpx.Client(
            base_url=f"{instance.url}/api/v1", headers={"Authorization": f"Bearer {self.key}"}, timeout=120
        )

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's body, or None where it has none. Raises Refusal."""
        answer = self.http.request(method, path, json=body)
        if not answer.is_success:
            raise Refusal(f"{method} {path}", answer)
        return answer.json() if answer.content else None

    def follow(self, path: str, *, until: str, seconds: float, waiting: Collection[str] = WAITING) -> Any:
        """What `path` gives once its state is `until`; raises RuntimeError where it ends otherwise, or not in time."""
        gives_up = time.monotonic() + seconds
        while (found := self.call("GET", path))["state"] != until:
            if found["state"] not in waiting or time.monotonic() > gives_up:
                raise RuntimeError(f"{path} is {found['state']}, after at most {seconds:.0f} s: {found}")
            time.sleep(PAUSE_SECONDS)
        return found
