"""Calls at web and gateway beside 1,000 connections at each that send one byte of a body and no valid key.

    python -m benchmarks.unread_bodies [--quick] [--root FOLDER]

An instance of its own with a stub as the model. Decisions, pages, chats and probes come at a steady rate, those of the
last three over a new connection each. Undisturbed spells and spells beside the connections take turns; bounded are the
ratio of their 99th percentiles and the number of calls that are refused. A connection that is cut off is opened again.
`--root`: another checkout, whose instance is measured, with the libraries of this one.

Prints a row per point and one JSON object as the last line; exits 1 when a point misses its bound.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import resource
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.serving import Service, a_decision, start, stub_server
from tools.instance import ROOT, Instance
from tools.report import Report, log
from tools.steady import Ask, ask_in_turns

CONNECTIONS, QUICK_CONNECTIONS = 1_000, 512
ONE_BYTE = (
    "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer nobody.knows\r\n"
    "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{"
)
CHAT = {"model": "helper", "messages": [{"role": "user", "content": "Which folder does a flight belong in?"}]}


class UnreadBodies:
    """Opens all of them on entry, and holds them; `opened` counts those that took another's place as well."""

    def __init__(self, urls: dict[str, str], count: int) -> None:
        self._places = [(url, path) for url, path in urls.items() for _ in range(count)]
        self._open: list[socket.socket] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._hold)
        self.opened = 0

    def __enter__(self) -> UnreadBodies:
        self._open = [self._connect(*place) for place in self._places]
        self._thread.start()
        time.sleep(1)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for connection in self._open:
            connection.close()

    def _connect(self, url: str, path: str) -> socket.socket:
        address = urlsplit(url)
        connection = socket.create_connection((address.hostname or "", address.port or 80), timeout=30)
        connection.sendall(ONE_BYTE.format(path=path).encode())
        connection.setblocking(False)
        self.opened += 1
        return connection

    def _hold(self) -> None:
        while not self._stop.wait(0.5):
            for number, connection in enumerate(self._open):
                try:
                    ended = connection.recv(1 << 12) == b""
                except BlockingIOError:
                    continue
                except OSError:
                    ended = True
                if ended:
                    connection.close()
                    self._open[number] = self._connect(*self._places[number])


def ask_anew(origin: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> None:
    """Over a new connection, by a client that takes next to no time of its own. Raises AssertionError."""
    address = urlsplit(origin)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    try:
        content = None if body is None else json.dumps(body).encode()
        connection.request("GET" if body is None else "POST", path, content, headers or {})
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status == 200, said[:200]
    finally:
        connection.close()


def legitimate_calls(instance: Instance, token: str) -> dict[str, Ask]:
    """Calls web and gateway; all but the decisions open a connection each."""
    gateway = instance.services()["GATEWAY_URL"]
    service = Service(instance.url, token)
    service.connection.timeout = 30
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return {
        "decisions": lambda: service.post("decisions", a_decision()),
        "pages": lambda: ask_anew(instance.url, "/log-in"),
        "chats": lambda: ask_anew(gateway, "/v1/chat/completions", CHAT, headers),
        "the gateway's /livez": lambda: ask_anew(gateway, "/livez"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_CONNECTIONS} connections, four spells of 10 s")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout whose instance is measured")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (16_384, max(16_384, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    count = QUICK_CONNECTIONS if options.quick else CONNECTIONS
    report = Report("unread_bodies")
    with tempfile.TemporaryDirectory(prefix="reckoner-unread-") as folder, stub_server() as stub:
        instance, token = start(Path(folder) / "var", stub, root=options.root)
        try:
            calls = legitimate_calls(instance, token)
            places = {
                instance.url: "/api/v1/decisions",
                instance.services()["GATEWAY_URL"]: "/v1/chat/completions",
            }
            opened = []

            def disturb() -> UnreadBodies:
                opened.append(UnreadBodies(places, count))
                return opened[-1]

            found = ask_in_turns(calls, disturb, spells=4 if options.quick else 8, seconds=10 if options.quick else 20)
            log(f"connections opened: {[one.opened for one in opened]}; load {os.getloadavg()[0]:.1f}")
            found.report(report, f"{count} unread bodies at each")
        finally:
            instance.stop()
    return report.finish(load=os.getloadavg()[0])


if __name__ == "__main__":
    sys.exit(main())
