"""A small gateway in front of a Reckoner, as there is in most places: it forwards, or does what gateways do.

Asked for a whole address, it is a proxy.

What it shall do with the next requests is put into `plan`: a status to answer by itself, with headers; `"lose the
answer"` to forward and then break the connection; `"break"` to break it at once. An empty plan forwards.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import urllib3

Planned = str | tuple[int, dict[str, str]]


@dataclass
class Gateway:
    """`seen` holds (moment of the monotonic clock, path, body) of every request, `logins` a proxy's passwords. A body
    with `unreadable` in it is refused whole, as the API refuses what it cannot read."""

    url: str = ""
    plan: deque[Planned] = field(default_factory=deque)
    seen: list[tuple[float, str, bytes]] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)
    unreadable: bytes = b""


@contextlib.contextmanager
def running_gateway(behind: str) -> Iterator[Gateway]:
    """Forwards to `behind`, an address without a path."""
    gateway = Gateway()
    pool = urllib3.PoolManager(retries=False)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            gateway.seen.append((time.monotonic(), self.path, body))
            planned = gateway.plan.popleft() if gateway.plan else "forward"
            if planned == "break":
                self.close_connection = True
                return
            if isinstance(planned, tuple):
                self.answer(planned[0], b"<html>the gateway's own page</html>", planned[1])
                return
            if gateway.unreadable and gateway.unreadable in body:
                refusal = (
                    b'{"error": {"code": "invalid_input", "message": "The body is not valid JSON.", "fields": []}}'
                )
                self.answer(400, refusal, {"Content-Type": "application/json"})
                return
            gateway.logins.append(self.headers.get("Proxy-Authorization"))
            headers = {
                name: value for name, value in self.headers.items() if name not in {"Host", "Proxy-Authorization"}
            }
            address = self.path if self.path.startswith("http") else behind + self.path
            reply = pool.request(self.command, address, body=body or None, headers=headers)
            if planned == "lose the answer":
                self.close_connection = True
                return
            self.answer(reply.status, reply.data, {"Content-Type": "application/json"})

        def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    gateway.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield gateway
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        pool.clear()
