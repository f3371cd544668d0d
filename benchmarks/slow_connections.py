"""Probes and recording while 64 connections send or read a byte every 3 seconds, without a log-in.

    python -m benchmarks.slow_connections [--quick]

An instance of its own (`manage.py up` in a temporary folder). Requests come at a steady rate: decisions one by one, and
/livez over a new connection each, as a probe asks. Undisturbed spells and spells beside the slow connections take
turns; what is bounded is the ratio of their 99th percentiles, over all requests of each kind of spell. A slow
connection that is cut off is opened again at once. Half of them send (a head, or a body), half read a large answer.

Prints a row per point and one JSON object as the last line; exits 1 when a point misses its bound.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import socket
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.ingest import Line, make_item
from tools.instance import Instance
from tools.killing import make_agent
from tools.ports import free_port
from tools.report import Report
from tools.steady import Ask, ask_in_turns

CONNECTIONS = 64
PACE = 3.0
LIMIT = 5.0
"""RECKONER_SLOW_CLIENT_SECONDS of the run: a spell sees every connection cut off."""
READS = "GET /static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
SENDS_BODY = "POST /api/v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
SENDS_HEAD = "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
KINDS = (READS, SENDS_BODY, READS, SENDS_HEAD)


class SlowConnections:
    """One thread that keeps all of them open; `lives` are the seconds until each was cut off."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._address = (address.hostname or "", address.port or 80)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.lives: list[float] = []

    def __enter__(self) -> SlowConnections:
        self._thread.start()
        time.sleep(1)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _open(self, sent: str) -> tuple[socket.socket, str, float]:
        connection = socket.socket()
        if sent == READS:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(10)
        connection.connect(self._address)
        connection.sendall(sent.encode())
        return connection, sent, time.monotonic()

    def _run(self) -> None:
        open_ones = [self._open(sent) for sent in itertools.islice(itertools.cycle(KINDS), CONNECTIONS)]
        while not self._stop.wait(PACE / CONNECTIONS):
            connection, sent, since = open_ones.pop(0)
            try:
                # After a reset, what has come before can still be read: only this tells.
                alive = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
                alive = alive and (bool(connection.recv(1)) if sent == READS else connection.send(b"x") == 1)
            except OSError:
                alive = False
            if not alive:
                self.lives.append(time.monotonic() - since)
                connection.close()
                connection, sent, since = self._open(sent)
            open_ones.append((connection, sent, since))
        for connection, _, _ in open_ones:
            connection.close()


def calls_of(instance: Instance, token: str) -> dict[str, Ask]:
    """A probe, and a decision over a kept connection."""
    rng = random.Random(0)
    line = Line(instance.url, "/api/v1/decisions", token)

    def probe() -> None:
        with urllib.request.urlopen(f"{instance.url}/livez", timeout=60) as answer:
            assert answer.status == 200

    def record() -> None:
        status, answer = line.post(json.dumps(make_item(rng, 0) | {"action": "travel"}).encode())
        assert status == 201, answer

    return {"probes": probe, "ingest": record}


def run(instance: Instance, report: Report, *, spells: int, seconds: float) -> None:
    calls = calls_of(instance, make_agent(instance))
    slow: list[SlowConnections] = []

    def disturb() -> SlowConnections:
        slow.append(SlowConnections(instance.url))
        return slow[-1]

    found = ask_in_turns(calls, disturb, spells=spells, seconds=seconds, a_second=20)
    found.report(report, f"{CONNECTIONS} slow connections")
    lives = [life for one in slow for life in one.lives]
    # Noticed at the next byte, up to PACE later; the connection's first look and the last are a second apart each.
    most = LIMIT + PACE + 2
    figure = f"{len(lives)}, after {min(lives, default=0):.1f} to {max(lives, default=0):.1f} s"
    cut = len(lives) >= CONNECTIONS and max(lives) <= most
    report.add("slow connections cut off", bound=f"all in {most:.0f} s", figure=figure, passed=cut)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="five spells of 10 s instead of ten of 20 s")
    quick = parser.parse_args().quick
    folder = Path(tempfile.mkdtemp(prefix="reckoner-slow-"))
    instance = Instance(
        folder / "var", RECKONER_MODEL_SERVER_URL="http://127.0.0.1:9", RECKONER_SLOW_CLIENT_SECONDS=str(LIMIT)
    )
    report = Report("slow_connections")
    try:
        instance.start("--no-demo", "--port", str(free_port()))
        run(instance, report, spells=5 if quick else 10, seconds=10 if quick else 20)
    finally:
        instance.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
