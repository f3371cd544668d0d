"""A small proxy as companies have them: it forwards plain HTTP, tunnels with CONNECT, and may ask for a password."""

from __future__ import annotations

import base64
import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import urllib3


@dataclass
class Proxy:
    """`seen` holds (method, target) of every request; with a `login`, "user:password", others get a 407."""

    address: str = ""
    login: str = ""
    seen: list[tuple[str, str]] = field(default_factory=list)


@contextlib.contextmanager
def running_proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    pool = urllib3.PoolManager(retries=False)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def let_in(self) -> bool:
            proxy.seen.append((self.command, self.path))
            wanted = "Basic " + base64.b64encode(proxy.login.encode()).decode()
            if not proxy.login or self.headers.get("Proxy-Authorization") == wanted:
                return True
            self.answer(407, b"who are you?", "text/plain")
            return False

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if not self.let_in():
                return
            assert urlsplit(self.path).netloc, "a proxy is asked for whole addresses"
            hop = {"Host", "Proxy-Authorization", "Connection"}
            headers = {name: value for name, value in self.headers.items() if name not in hop}
            reply = pool.request(self.command, self.path, body=body or None, headers=headers, redirect=False)
            self.answer(reply.status, reply.data, "application/json")

        def do_GET(self) -> None:
            self.do_POST()

        def do_CONNECT(self) -> None:
            if not self.let_in():
                return
            host, _, port = self.path.rpartition(":")
            with socket.create_connection((host, int(port)), timeout=20) as there:
                self.send_response(200)
                self.end_headers()
                self.close_connection = True
                ends = [self.connection, there]
                while readable := select.select(ends, [], [], 20)[0]:
                    for end in readable:
                        data = end.recv(65536)
                        if not data:
                            return
                        ends[1 - ends.index(end)].sendall(data)

        def answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            if status == 407:
                self.send_header("Proxy-Authenticate", 'Basic realm="proxy"')
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        pool.clear()
