"""Times the next decision of a labelling queue in a ledger of a million: python -m benchmarks.labelling [--quick]

`benchmarks.large_ledger` fills a database of this benchmark's own. For each order, four reviewers in turn ask for the
next decision over the API and label it, with an overlap of 2, while 1,000 places are held by others. A time is the
server's whole answer to `next`. A request that also looks at the ledger for more decisions, one in 250 labels, counts
like any other; the slowest is reported. Prints one JSON object as the last line; exits 1 when a point misses its bound.
--keep DIR leaves the ledger there and takes it the next time.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import statistics
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from benchmarks.large_ledger import large_ledger

BOUND_MS = 30.0
REVIEWERS = 4
HELD = 1_000


def measure(slug: str, strategy: str, labels: int) -> dict[str, Any]:
    from django.db.models.functions import Now
    from django.test import Client

    from decisions.labelling.filling import fill_queue
    from decisions.labelling.queues import QueueSetup, create_queue
    from decisions.models import Reservation
    from tools.factories import MembershipFactory, UserFactory
    from workspaces.actors import system
    from workspaces.models import Workspace

    workspace = Workspace.objects.get(slug=slug)
    name = f"bench-{uuid.uuid4().hex[:8]}"
    setup = QueueSetup(name=name, filters={"agent": "filer"}, strategy=strategy, overlap=2)
    queue = create_queue(by=system(workspace), slug=name, setup=setup)
    clients = []
    for _ in range(REVIEWERS):
        user = UserFactory(email=f"{uuid.uuid4()}@example.org")
        MembershipFactory(workspace=workspace, user=user, role="labeller")
        clients.append(Client())
        clients[-1].force_login(user)
    while Reservation.objects.filter(queue=queue).count() < 2 * HELD:
        fill_queue(queue)
    best = Reservation.objects.filter(queue=queue).order_by("rank", "decision_id")
    held = list(best.values_list("id", flat=True)[:HELD])
    for number in range(HELD):
        Reservation.objects.filter(id=held[number]).update(
            holder=f"key:{number}", expires_at=Now() + dt.timedelta(hours=1)
        )
    asked, labelled = [], []
    for number in range(labels):
        client = clients[number % REVIEWERS]
        began = time.perf_counter()
        answer = client.post(f"/api/v1/label-queues/{name}/next")
        asked.append((time.perf_counter() - began) * 1000)
        decision = answer.json()["decision"]
        assert answer.status_code == 200 and decision, answer.content
        began = time.perf_counter()
        path = f"/api/v1/label-queues/{name}/decisions/{decision['id']}/label"
        said = client.post(path, {"verdict": "confirmed"}, content_type="application/json")
        labelled.append((time.perf_counter() - began) * 1000)
        assert said.status_code == 201, said.content
    asked = asked[REVIEWERS:]  # each client's first request warms up
    return {
        "strategy": strategy,
        "next_median_ms": round(statistics.median(asked), 1),
        "next_p95_ms": round(statistics.quantiles(asked, n=20)[-1], 1),
        "next_slowest_ms": round(max(asked), 1),
        "label_median_ms": round(statistics.median(labelled), 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100,000 decisions and 300 labels of each order")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the ledger there, and use the one that is there")
    options = parser.parse_args()
    rows, labels = (100_000, 300) if options.quick else (1_000_000, 1_000)
    with large_ledger(rows, options.keep) as slug:
        figures = []
        for strategy in ("uncertainty", "value", "random", "sequential", "diversity"):
            found = measure(slug, strategy, labels)
            figures.append(found)
            print(
                f"{strategy:<12} next: median {found['next_median_ms']:>6} ms, p95 {found['next_p95_ms']:>6} ms,"
                f" slowest {found['next_slowest_ms']:>7} ms; label: median {found['label_median_ms']:>6} ms  "
                f"{'pass' if found['next_p95_ms'] <= BOUND_MS else 'FAIL'}",
                flush=True,
            )
    passed = all(found["next_p95_ms"] <= BOUND_MS for found in figures)
    print(json.dumps({"benchmark": "labelling", "quick": options.quick, "rows": rows, "passed": passed,
                      "bound_ms": BOUND_MS, "figures": figures}))  # fmt: skip
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
