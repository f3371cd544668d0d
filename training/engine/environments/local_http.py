"""What the engine's small HTTP servers share: answers of known length, bodies up to a limit, no log. Standard library.

Each has a handler of its own with its paths; a server of models with many clients is another thing
(training.engine.serving).
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar


class BodyTooLarge(ValueError):
    """The request's body has no stated length, or too large a one. It stays unread, and the connection ends."""


class LocalHandler(BaseHTTPRequestHandler, ABC):
    """`timeout`: seconds that a client may be silent. `most_bytes`: of a request's body."""

    protocol_version = "HTTP/1.1"
    timeout: ClassVar[float] = 30.0
    most_bytes: ClassVar[int] = 100_000

    @abstractmethod
    def get(self) -> None:
        """Answers a GET."""

    @abstractmethod
    def post(self) -> None:
        """Answers a POST."""

    def do_GET(self) -> None:
        self.get()

    def do_POST(self) -> None:
        self.post()

    def read_body(self) -> bytes:
        """Raises BodyTooLarge."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > self.most_bytes:
            self.close_connection = True
            raise BodyTooLarge(f"a Content-Length of at most {self.most_bytes} is needed")
        return self.rfile.read(int(length))

    def answer(self, status: int, content: Mapping[str, Any]) -> None:
        """As JSON."""
        self.send(status, json.dumps(content).encode(), "application/json")

    def send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: an episode has many calls, and they may hold anything."""


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[None]:
    """Answers in threads of its own until the block is left; the server is closed then."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
