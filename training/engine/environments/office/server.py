"""The office as a local HTTP application, for agents in other processes. Standard library only.

    GET  /tools            every tool: app, name, description, JSON schema of its arguments
    POST /APP/NAME         a JSON object of arguments → {"ok": true, "text": "…"}
    POST /episode/done     ends the episode, where an environment takes the calls

It listens on the loopback interface. A page in a browser on the same machine cannot call it: a foreign Host header or
another content type than JSON is refused.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any

from training.engine.environments.local_http import BodyTooLarge, LocalHandler, serving
from training.engine.environments.office.calls import DONE
from training.engine.environments.office.tools import TOOLS, Answer
from training.engine.environments.protocol import EnvironmentFault

ENDING = ("episode", DONE)
Take = Callable[[str, Mapping[str, Any]], Answer]
"""Takes a tool's name and its arguments: an environment's `take_call`, or `tools.call` on a world."""


class OfficeServer(ThreadingHTTPServer):
    """Calls are taken one at a time, in the order in which they come."""

    daemon_threads = True

    def __init__(self, take: Take) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.take, self.turn = take, threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def serve_office(take: Take) -> Iterator[str]:
    """Serves until the block is left; gives the address, on a free port."""
    server = OfficeServer(take)
    with serving(server):
        yield server.address


class _Handler(LocalHandler):
    server: OfficeServer

    def get(self) -> None:
        self.answer(*self._tell())

    def post(self) -> None:
        self.answer(*self._take())

    def _tell(self) -> tuple[int, dict[str, Any]]:
        if not self._is_local():
            return 403, {"error": "only this machine's own names are answered"}
        if self.path != "/tools":
            return 404, {"error": "there is /tools, and POST /APP/NAME"}
        return 200, {"tools": [{"app": one.app, **one.tool._asdict()} for one in TOOLS.values()]}

    def _take(self) -> tuple[int, dict[str, Any]]:
        try:
            body = self.read_body()
        except BodyTooLarge as error:
            return 413, {"error": str(error)}
        if not self._is_local():
            return 403, {"error": "only this machine's own names are answered"}
        if self.headers.get_content_type() != "application/json":
            return 415, {"error": "Content-Type: application/json is needed"}
        app, _, name = self.path.removeprefix("/").partition("/")
        if (app, name) != ENDING and (name not in TOOLS or TOOLS[name].app != app):
            return 404, {"error": f"there is no {self.path}; GET /tools lists what there is"}
        try:
            arguments = json.loads(body)
        except ValueError as error:
            return 400, {"error": f"no JSON: {error}"}
        if not isinstance(arguments, dict):
            return 400, {"error": "the arguments must be a JSON object"}
        try:
            with self.server.turn:
                return 200, self.server.take(name, arguments).as_json()
        except EnvironmentFault as fault:
            return 500, {"error": str(fault)}

    def _is_local(self) -> bool:
        port = self.server.server_address[1]
        return self.headers.get("Host") in (f"127.0.0.1:{port}", f"localhost:{port}")
