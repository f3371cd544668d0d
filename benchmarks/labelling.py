"""Times the next decision of a labelling queue in a ledger of a million: python -m benchmarks.labelling [--quick]

`benchmarks.large_ledger` fills a database of this benchmark's own. For each order, four reviewers in turn ask for the
next decision over the API and label it, with an overlap of 2, while 1,000 places are held by others. A time is the
server's whole answer to `next`; CPU is that of the web process alone. A request that also looks at the ledger for more
decisions, one in 250 labels, counts like any other; the slowest is reported. Prints a row per order and one JSON object
as the last line; exits 1 when one misses its bound.
--keep DIR leaves the ledger there and takes it the next time.
"""

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import sys
import time
import uuid
from pathlib import Path

from benchmarks.large_ledger import large_ledger
from tools.report import Report

BOUND_MS = 30.0
REVIEWERS = 4
HELD = 1_000


def measure(slug: str, strategy: str, labels: int) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds of each answer to `next`, how many of them this process had a processor, and of each label."""
    from django.db.models.functions import Now
    from django.test import Client

    from decisions.labelling.filling import fill_queue
    from decisions.labelling.queues import QueueSetup, create_queue
    from decisions.models import Reservation
    from tools.factories import MembershipFactory, UserFactory
    from workspaces.access.actors import system
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
    best = Reservation.objects.filter(queue=queue).order_by("rank", "subject")
    held = list(best.values_list("id", flat=True)[:HELD])
    for number in range(HELD):
        Reservation.objects.filter(id=held[number]).update(
            holder=f"key:{number}", expires_at=Now() + dt.timedelta(hours=1)
        )
    asked, worked, labelled = [], [], []
    for number in range(labels):
        client = clients[number % REVIEWERS]
        began, had = time.perf_counter(), time.process_time()
        answer = client.post(f"/api/v1/label-queues/{name}/next")
        asked.append((time.perf_counter() - began) * 1000)
        worked.append((time.process_time() - had) * 1000)
        decision = answer.json()["decision"]
        assert answer.status_code == 200 and decision, answer.content
        began = time.perf_counter()
        path = f"/api/v1/label-queues/{name}/decisions/{decision['id']}/label"
        said = client.post(path, {"verdict": "confirmed"}, content_type="application/json")
        labelled.append((time.perf_counter() - began) * 1000)
        assert said.status_code == 201, said.content
    return asked[REVIEWERS:], worked[REVIEWERS:], labelled  # each client's first request warms up


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100,000 decisions and 300 labels for each order")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the ledger there, and use the one that is there")
    options = parser.parse_args()
    rows, labels = (100_000, 300) if options.quick else (1_000_000, 400)
    report = Report("labelling")
    with large_ledger(rows, options.keep) as slug:
        from decisions.models import QueueStrategy

        for strategy in QueueStrategy.values:
            asked, worked, labelled = measure(slug, strategy, labels)
            p95 = statistics.quantiles(asked, n=20)[-1]
            report.add(
                f"the next of {rows:,} decisions, {strategy}, p95",
                bound=f"<= {BOUND_MS:g} ms",
                figure=f"{p95:.1f} ms (median {statistics.median(asked):.1f}, slowest {max(asked):.1f}; CPU, median"
                f" {statistics.median(worked):.1f}; a label, median {statistics.median(labelled):.1f})",
                passed=p95 <= BOUND_MS,
            )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
