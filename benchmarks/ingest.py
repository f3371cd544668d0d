"""Recording decisions over HTTP: batches beside COPY of the same rows, single ones beside a plain DRF endpoint.

    python -m benchmarks.ingest [--quick] [--rows N]

An instance of its own (`manage.py up` in a temporary folder), asked over real HTTP by several clients at once. Every
item has an id of its own, its action is checked against what was offered, and every batch carries an Idempotency-Key.
COPY then writes the rows that the API has just stored, under new ids, into the same table, in transactions of 1,000
over as many connections; the two take turns, and the ratio is of rows a second. The table is then filled up (5 million
rows; 300,000 with --quick) and the batches are timed again.

Decisions one by one are timed in two ways, beside a plain DRF endpoint under the same server. By clients that ask again
as soon as they are answered: what a request costs, and what can be served at most. And by requests that come at random
at a given rate, the same for both, as those of independent users do; a latency is counted from the moment when a
request was due, so that a slow answer cannot hold back those behind it. The rates are shares of what the plain endpoint
serves at most.

Prints a row per point and one JSON object as the last line; exits 1 when a point misses its bound. Seconds are of this
machine; what is bounded are ratios, and CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg
import uuid_utils.compat

from tools.instance import ROOT, Instance
from tools.ports import free_port

BATCH = 1000
CLIENTS = 4
LINES = 16
SHARES = (0.25, 0.5, 0.75)
BOUNDED = 0.5
CPU_SHARE = 0.28
"""1.2 ms where the plain endpoint takes 4.2 ms, the most that it took when that bound was set."""
OPTIONS = ["finance", "travel", "health", "work", "home", "sport", "news", "music"]
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"]
COLUMNS = (
    "workspace_id", "agent_id", "agent_version_id", "unit", "state", "options", "action", "confidence", "propensity",
    "policy_name", "latency_ms", "tokens_in", "tokens_out", "observed_at", "recorded_at", "content_hash",
)  # fmt: skip
# The same moment, so the same partition and the same place in the index; other random bits.
NEW_ID = """(left(id::text, 15) || substr(md5(random()::text), 1, 3) || '-8' || substr(md5(random()::text), 1, 3)
            || '-' || substr(md5(random()::text), 1, 12))::uuid"""
FILL = f"""
INSERT INTO decisions_decision (id, {", ".join(COLUMNS)})
SELECT (lpad(to_hex(m.ms), 12, '0') || '7' || substr(md5(random()::text), 1, 3) || '8'
        || substr(md5(random()::text), 1, 15))::uuid,
       d.workspace_id, d.agent_id, d.agent_version_id, 'user-' || i %% 50000, '{{"text": "short"}}', d.options,
       d.action, 0.5, 0.5, 'outside', 10, 100, 2, to_timestamp(m.ms / 1000.0), to_timestamp(m.ms / 1000.0),
       d.content_hash
  FROM (SELECT * FROM decisions_decision LIMIT 1) d
  CROSS JOIN generate_series(1, %s) i
  CROSS JOIN LATERAL (SELECT ((extract(epoch FROM now()) - 1000.0 * (%s - i) / %s) * 1000)::bigint AS ms) m
"""


class Line:
    """One kept-alive HTTP connection: a client so light that the server is what is measured."""

    def __init__(self, url: str, path: str, token: str) -> None:
        host = urlsplit(url)
        self._socket = socket.create_connection((host.hostname or "", host.port or 80))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._head = (
            f"POST {path} HTTP/1.1\r\nHost: {host.netloc}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\n"
        )

    def post(self, body: bytes, key: str | None = None) -> tuple[int, bytes]:
        extra = f"Idempotency-Key: {key}\r\n" if key else ""
        self._socket.sendall(f"{self._head}{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status = int(self._file.readline().split()[1])
        length = 0
        while (header := self._file.readline()) != b"\r\n":
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return status, self._file.read(length)


def make_item(rng: random.Random, number: int) -> dict[str, Any]:
    """A decision of about 650 bytes, such as a mail filer sends."""
    return {
        "id": str(uuid_utils.compat.uuid7()),
        "agent": "filer",
        "state": {"text": " ".join(rng.choice(WORDS) for _ in range(60)), "source": "mail", "number": number},
        "action": rng.choice(OPTIONS),
        "policy_name": "gpt-of-yesterday",
        "propensity": round(rng.uniform(0.1, 1), 4),
        "confidence": round(rng.random(), 4),
        "unit": f"user-{rng.randrange(50_000)}",
        "latency_ms": round(rng.uniform(5, 50), 2),
        "tokens_in": rng.randrange(50, 500),
        "tokens_out": 2,
        "observed_at": "2026-11-20T10:00:00+00:00",
    }


def spread(count: int, work: Callable[[int], Callable[[int], None]]) -> float:
    """`count` calls over CLIENTS threads that start together; seconds. `work(thread)` makes a thread's function."""
    made = [work(thread) for thread in range(CLIENTS)]
    barrier = threading.Barrier(CLIENTS + 1)

    def one(thread: int) -> None:
        barrier.wait()
        for number in range(thread, count, CLIENTS):
            made[thread](number)

    with ThreadPoolExecutor(CLIENTS) as pool:
        futures = [pool.submit(one, thread) for thread in range(CLIENTS)]
        barrier.wait()
        began = time.perf_counter()
        for future in futures:
            future.result()
        return time.perf_counter() - began


def cpu_of(processes: Sequence[psutil.Process]) -> float:
    """CPU seconds of these, children that are still there included."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def percentiles(milliseconds: Iterable[float]) -> dict[str, float]:
    ordered = sorted(milliseconds)
    return {
        "p50_ms": round(ordered[len(ordered) // 2], 2),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)], 2),
    }


@dataclass(frozen=True)
class Bench:
    """A started instance, and what is needed to ask it."""

    instance: Instance
    token: str
    agent: dict[str, Any]
    rng: random.Random

    def batches(self, count: int) -> list[bytes]:
        return [json.dumps([make_item(self.rng, n) for n in range(BATCH)]).encode() for _ in range(count)]

    def web(self) -> list[psutil.Process]:
        return self.instance.find("gunicorn", "project.wsgi")

    def servers(self) -> list[psutil.Process]:
        """PostgreSQL with all its backends."""
        mine = [p for p in psutil.process_iter() if p.name() == "postgres" and p.status() != psutil.STATUS_ZOMBIE]
        roots = [p for p in mine if str(self.instance.var) in " ".join(p.cmdline())]
        return [*roots, *(child for root in roots for child in root.children(recursive=True))]

    def post_batches(self, bodies: list[bytes]) -> tuple[float, float]:
        """Rows a second, and milliseconds of the web processes' CPU for a batch."""

        def work(_: int) -> Callable[[int], None]:
            line = Line(self.instance.url, "/api/v1/decisions", self.token)

            def send(number: int) -> None:
                status, answer = line.post(bodies[number], str(uuid.uuid4()))
                assert status == 201, answer[:500]

            return send

        web = self.web()
        before = cpu_of(web)
        seconds = spread(len(bodies), work)
        return len(bodies) * BATCH / seconds, (cpu_of(web) - before) / len(bodies) * 1000

    def copied(self, batches: int) -> list[bytes]:
        """The newest rows as COPY's own text, 1,000 each, under new ids."""
        names = ", ".join(COLUMNS)
        with psycopg.connect(self.instance.services()["DATABASE_URL"]) as connection:
            statement = (
                f"COPY (SELECT {NEW_ID}, {names} FROM decisions_decision ORDER BY id DESC LIMIT {batches * BATCH})"
                " TO STDOUT"
            )
            with connection.cursor().copy(statement) as copy:
                lines = b"".join(bytes(part) for part in copy).splitlines(keepends=True)
        return [b"".join(lines[start : start + BATCH]) for start in range(0, len(lines), BATCH)]

    def copy_batches(self, chunks: list[bytes]) -> float:
        """Rows a second."""
        statement = f"COPY decisions_decision (id, {', '.join(COLUMNS)}) FROM STDIN"
        connections: list[psycopg.Connection[Any]] = []

        def work(_: int) -> Callable[[int], None]:
            connection = psycopg.connect(self.instance.services()["DATABASE_URL"], autocommit=True)
            connections.append(connection)

            def send(number: int) -> None:
                with connection.transaction(), connection.cursor().copy(statement) as copy:
                    copy.write(chunks[number])

            return send

        seconds = spread(len(chunks), work)
        for connection in connections:
            connection.close()
        return len(chunks) * BATCH / seconds

    def compare(self, batches: int, rounds: int) -> dict[str, Any]:
        """HTTP and COPY in turns; the ratio is the median of the rounds'."""
        ratios, sent, copied, cpu = [], [], [], []
        for _ in range(rounds):
            rate, spent = self.post_batches(self.batches(batches))
            raw = self.copy_batches(self.copied(batches))
            ratios.append(rate / raw)
            sent.append(rate)
            copied.append(raw)
            cpu.append(spent)
        return {
            "ratio": round(statistics.median(ratios), 3),
            "ratios": [round(ratio, 3) for ratio in ratios],
            "http_rows_a_second": round(statistics.median(sent)),
            "copy_rows_a_second": round(statistics.median(copied)),
            "web_cpu_ms_a_batch": round(statistics.median(cpu), 1),
        }

    def single_bodies(self, count: int, plain: bool) -> list[bytes]:
        ids = {"agent": self.agent["id"], "agent_version": self.agent["version_id"], "options": OPTIONS}
        return [json.dumps(make_item(self.rng, n) | (ids if plain else {})).encode() for n in range(count)]

    def singles(self, url: str, path: str, web: list[psutil.Process], count: int, plain: bool) -> dict[str, float]:
        """One decision a request, each client's next as soon as it is answered: CPU of the web processes, and
        latencies in milliseconds."""
        bodies = self.single_bodies(count, plain)
        spent = [0.0] * count

        def work(_: int) -> Callable[[int], None]:
            line = Line(url, path, self.token)

            def send(number: int) -> None:
                began = time.perf_counter()
                status, answer = line.post(bodies[number])
                spent[number] = (time.perf_counter() - began) * 1000
                assert status == 201, answer[:500]

            return send

        before = cpu_of(web)
        seconds = spread(count, work)
        return {
            "cpu_ms": round((cpu_of(web) - before) / count * 1000, 3),
            **percentiles(spent),
            "a_second": round(count / seconds),
        }

    def offered(self, url: str, path: str, rate: float, count: int, plain: bool, seed: int) -> list[float]:
        """One decision a request, coming at random at `rate` a second: latencies in milliseconds since each was due."""
        bodies = self.single_bodies(count, plain)
        arrivals = random.Random(seed)
        due, moment = [], 0.2
        for _ in range(count):
            moment += arrivals.expovariate(rate)
            due.append(moment)
        spent = [0.0] * count
        numbers, lock = iter(range(count)), threading.Lock()
        lines = [Line(url, path, self.token) for _ in range(LINES)]
        began = time.perf_counter()

        def work(line: Line) -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                time.sleep(max(began + due[number] - time.perf_counter(), 0))
                status, answer = line.post(bodies[number])
                spent[number] = (time.perf_counter() - began - due[number]) * 1000
                assert status == 201, answer[:500]

        with ThreadPoolExecutor(LINES) as pool:
            list(pool.map(work, lines))
        return spent

    def rows(self) -> int:
        return int(self.instance.query("SELECT count(*) FROM decisions_decision")[0][0])

    def fill(self, rows: int) -> None:
        """Up to `rows`, in steps, of moments within the last quarter of an hour. Nobody measures this: keys of others
        are not looked up."""
        while (missing := rows - self.rows()) > 0:
            step = min(missing, 500_000)
            with psycopg.connect(self.instance.services()["DATABASE_URL"], autocommit=True) as connection:
                connection.execute("SET session_replication_role = replica")
                connection.execute(FILL, [step, step, step])
        with psycopg.connect(self.instance.services()["DATABASE_URL"], autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE) decisions_decision")
            connection.execute("CHECKPOINT")


def start(var: Path) -> Bench:
    """The real instance without demo and model server, an agent and a key."""
    # Nobody asks a model here: an address that is given keeps `up` from starting a server.
    limits = {"RECKONER_KEY_REQUESTS_A_MINUTE": "0"}
    instance = Instance(var, RECKONER_MODEL_SERVER_URL="http://127.0.0.1:9", **limits)
    instance.start("--no-demo", "--port", str(free_port()))
    token = instance.make_key("bench")
    line = Line(instance.url, "/api/v1/agents", token)
    fields = {"slug": "filer", "name": "Filer", "prompt_template": "{{ text }}", "options": OPTIONS}
    status, answer = line.post(json.dumps(fields).encode())
    assert status == 201, answer
    agent = json.loads(answer)
    agent["version_id"] = str(instance.query("SELECT id FROM decisions_agentversion")[0][0])
    return Bench(instance, token, agent, random.Random(0))


def serve_plain(bench: Bench) -> Iterator[tuple[str, psutil.Process]]:
    """The plain endpoint under the same server with the same options, on a port of its own."""
    port = free_port()
    command = bench.instance.find("-m", "gunicorn", "project.wsgi")[0].cmdline()
    command[command.index("--bind") + 1] = f"127.0.0.1:{port}"
    command[-1] = "benchmarks.plain_endpoint:application"
    with (bench.instance.var / "plain.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=bench.instance.environment, stdout=log, stderr=log)
    try:
        give_up = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}", psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def compare_singles(bench: Bench, count: int, offered: int, rounds: int) -> dict[str, Any]:
    """Ours and the plain endpoint in turns: as fast as the clients go, then at the same rates.

    At a rate the percentiles are of the requests of all rounds: connections fall on the workers by chance, anew in each
    round, and p99 follows that.
    """
    here, there = (bench.instance.url, "/api/v1/decisions"), "/plain/decisions"
    for url, process in serve_plain(bench):
        bench.singles(url, there, [process], 50, True)
        web = [process, *process.children(recursive=True)]
        own, plain = [], []
        for _ in range(3):
            own.append(bench.singles(*here, bench.web(), count, False))
            plain.append(bench.singles(url, there, web, count, True))
        most = medians(plain)["a_second"]
        for address, path, other in ((*here, False), (url, there, True)):  # every thread and its database session
            bench.offered(address, path, 2 * most, 800, other, 0)
        rates = []
        for share in SHARES:
            ours: list[list[float]] = []
            plains: list[list[float]] = []
            for seed in range(rounds if share == BOUNDED else 2):
                ours.append(bench.offered(*here, most * share, offered, False, seed))
                plains.append(bench.offered(url, there, most * share, offered, True, seed))
            pairs = [(percentiles(one), percentiles(other)) for one, other in zip(ours, plains, strict=True)]
            rates.append(
                {
                    "share": share,
                    "a_second": round(most * share),
                    "single": percentiles(chain(*ours)),
                    "plain": percentiles(chain(*plains)),
                    "p99_of_rounds": [ratio(other, one, "p99_ms") for one, other in pairs],
                }
            )
    return {"single": medians(own), "plain": medians(plain), "offered": rates}


def ratio(above: dict[str, float], below: dict[str, float], name: str) -> float:
    return round(above[name] / below[name], 2)


def medians(found: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(each[name] for each in found), 3) for name in found[0]}


def measure(bench: Bench, *, quick: bool, rows: int) -> dict[str, Any]:
    batches, rounds, singles, offered, often = (20, 3, 600, 300, 3) if quick else (60, 5, 4000, 2000, 10)
    bench.post_batches(bench.batches(8))  # imports, connections, plans
    bench.fill(10_000)
    few = bench.compare(batches, rounds)
    alone = compare_singles(bench, singles, offered, often)
    began = time.monotonic()
    bench.fill(rows)
    filled = time.monotonic() - began
    many = bench.compare(batches, rounds)
    return {
        "clients": CLIENTS,
        "few": few,
        "rows": bench.rows(),
        "filled_s": round(filled),
        "many": many,
        "growth": round(many["ratio"] / few["ratio"], 3),
        **alone,
        "load": os.getloadavg()[0],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer batches, 300,000 rows")
    parser.add_argument("--rows", type=int, help="how far the table is filled")
    options = parser.parse_args()
    began = time.monotonic()
    load = os.getloadavg()[0]
    var = Path(tempfile.mkdtemp(prefix="reckoner-ingest-"))
    bench = start(var)
    try:
        figures = measure(bench, quick=options.quick, rows=options.rows or (300_000 if options.quick else 5_000_000))
    finally:
        bench.instance.stop()
        shutil.rmtree(var, ignore_errors=True)
    single, plain = figures["single"], figures["plain"]
    half = next(rate for rate in figures["offered"] if rate["share"] == BOUNDED)
    points = [
        ("batches of 1,000 over HTTP / COPY, 10,000 rows there", figures["few"]["ratio"], ">=", 0.5),
        ("that ratio in the large table / in the small one", figures["growth"], ">=", 0.8),
        ("one decision a request, web CPU, ours / plain DRF", ratio(single, plain, "cpu_ms"), "<=", CPU_SHARE),
        ("plain DRF / ours, p50, asked without a pause", ratio(plain, single, "p50_ms"), ">=", 3.0),
        (
            "plain DRF / ours, p50, at half the load it can serve",
            ratio(half["plain"], half["single"], "p50_ms"),
            ">=",
            3.0,
        ),
        (
            "plain DRF / ours, p99, at half the load it can serve",
            ratio(half["plain"], half["single"], "p99_ms"),
            ">=",
            5.0,
        ),
    ]
    passed = True
    for label, figure, sense, bound in points:
        good = figure >= bound if sense == ">=" else figure <= bound
        passed &= good
        print(f"{label:<56} {sense} {bound:<5} {figure:<8} {'pass' if good else 'FAIL'}")
    report = {"benchmark": "ingest", "quick": options.quick, "passed": passed, "load_before": load}
    print(json.dumps({**report, "seconds": round(time.monotonic() - began, 1), "figures": figures}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
