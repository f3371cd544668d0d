"""Recording decisions on a real instance while its processes are killed, and thousands of made-up requests.

`python -m benchmarks.accept.ledger_ingest [--quick]` runs it alone; each function adds its rows to a Report, for a
larger part. Who sends and who kills is in `tools.killing`.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

from tools.instance import ROOT, Instance
from tools.killing import POSTGRES, WEB, kill_while_sending, run_on_instance, stored
from tools.report import Report, log

MAKE_KNOWN = """
import json
from tools.generated import make_known
from decisions.models import Agent
print(json.dumps(make_known(Agent.objects.get(slug="filer"))))
"""


def kill_rows(report: Report, instance: Instance, token: str, *, web: int = 50, postgres: int = 10) -> None:
    """F1 and F2: kill -9 of the web processes and of PostgreSQL while decisions are recorded at 150 a second."""
    for name, words, times in (("web", WEB, web), ("PostgreSQL", POSTGRES, postgres)):
        senders, waits = kill_while_sending(instance, token, words, times)
        there = stored(instance, senders)
        lost = senders.acknowledged - set(there)
        doubled = [one for one, count in there.items() if count > 1]
        what = f"kill -9 of {name}, {times} times"
        figure = f"{len(senders.acknowledged)} acknowledged, {senders.repeated} repeated"
        report.add(
            f"{what}: acknowledged and not stored", bound="0", figure=f"{len(lost)} of {figure}", passed=not lost
        )
        report.add(f"{what}: stored twice", bound="0", figure=len(doubled), passed=not doubled)
        report.add(f"{what}: refused", bound="0", figure=senders.refused[:2] or 0, passed=not senders.refused)
        slowest = max(waits)
        report.add(f"{what}: ready again, slowest", bound="<= 15 s", figure=f"{slowest:.1f} s", passed=slowest <= 15)


def generated_rows(report: Report, instance: Instance, token: str, *, requests: int = 5000) -> None:
    """F15: requests made up from the OpenAPI document."""
    from tools.generated import is_fault, send_generated

    address = urlsplit(instance.url)
    accept = {"Accept": "application/vnd.oai.openapi+json"}
    with urllib.request.urlopen(urllib.request.Request(f"{instance.url}/api/v1/schema", headers=accept)) as answer:
        document = json.load(answer)
    operations = sum(len(path) for path in document["paths"].values())
    made = instance.manage("shell", "-v", "0", "-c", MAKE_KNOWN)
    assert made.returncode == 0, made.stderr[-2000:]
    known = json.loads(made.stdout)
    statuses: Counter[int] = Counter()
    failed: list[tuple[str, str, str, int]] = []
    unstated: list[tuple[str, str, str, int]] = []
    slowest = (0.0, "")

    def send(request: Any, stated: frozenset[int]) -> None:
        nonlocal slowest
        headers = {**request.headers, "Authorization": f"Bearer {token}", "Connection": "close"}
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
        began = time.monotonic()
        try:
            connection.request(request.method, request.path_url, request.body, headers)
            status = connection.getresponse().status
        except (ValueError, UnicodeError):
            return  # a header or path that no client can put on the wire
        finally:
            connection.close()
        slowest = max(slowest, (time.monotonic() - began, f"{request.method} {request.path_url[:100]}"))
        statuses[status] += 1
        if status not in stated:
            unstated.append((request.method, request.path_url, str(request.body)[:300], status))
        if is_fault(request, status):
            failed.append((request.method, request.path_url, str(request.body)[:300], status))

    for seed in itertools.count():
        send_generated(document, send, each=max(1, requests // (2 * operations)), known=known, seed=seed)
        if statuses.total() >= requests or seed >= 5:
            break
    told = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
    report.add("generated requests", bound=f">= {requests}", figure=told, passed=statuses.total() >= requests)
    report.add("generated requests: server errors", bound="0", figure=failed[:3] or 0, passed=not failed)
    report.add(
        "generated requests: statuses that the document does not state",
        bound="0",
        figure=unstated[:3] or 0,
        passed=not unstated,
    )
    report.add(
        "generated requests: slowest", bound="< 1 s", figure=f"{slowest[0]:.2f} s, {slowest[1]}", passed=slowest[0] < 1
    )


def speed_rows(report: Report, *, quick: bool = False) -> None:
    """benchmarks.ingest as it is, a row a point."""
    command = [sys.executable, "-m", "benchmarks.ingest", *(["--quick"] if quick else [])]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = ran.stdout.splitlines()
    for line in lines[:-1]:
        words = line.split()
        if words and words[-1] in {"pass", "FAIL"}:
            what, sense, bound, figure = " ".join(words[:-4]), *words[-4:-1]
            report.add(what, bound=f"{sense} {bound}", figure=figure, passed=words[-1] == "pass")
    log(lines[-1] if lines else ran.stderr[-2000:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the kills and requests")
    quick = parser.parse_args().quick
    report = Report("ledger_ingest")

    def work(instance: Instance, token: str) -> None:
        kill_rows(report, instance, token, web=5 if quick else 50, postgres=1 if quick else 10)
        generated_rows(report, instance, token, requests=500 if quick else 5000)

    run_on_instance(work)
    speed_rows(report, quick=quick)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
