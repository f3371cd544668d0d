"""Requests made up from the OpenAPI document, sent to a real instance: no server error, no status it does not state.

    python -m benchmarks.generated_requests [--quick]

`tools.generated` makes them up and says what is a failure.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import sys
import time
import urllib.request
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

from tools.instance import Instance
from tools.killing import run_on_instance
from tools.report import Report

MAKE_KNOWN = """
import json
from tools.generated import make_known
from decisions.models import Agent
print(json.dumps(make_known(Agent.objects.get(slug="filer"))))
"""


def generated_rows(report: Report, instance: Instance, token: str, *, requests: int) -> None:
    """Four rows: how many, server errors, unstated statuses, the slowest."""
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="500 requests instead of 5,000")
    quick = parser.parse_args().quick
    report = Report("generated_requests")

    def work(instance: Instance, token: str) -> None:
        generated_rows(report, instance, token, requests=500 if quick else 5000)

    run_on_instance(work)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
