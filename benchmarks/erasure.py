"""Erasing people from a ledger of a million decisions: how long a look, an erasure and its longest transaction take.

    python -m benchmarks.erasure [--quick]

A ledger of a million decisions (100,000 with --quick; `benchmarks.large_ledger`), from which people are erased by the
real job: one with a single decision, some by unit and by user reference, one with a twentieth of all. While a batch of
an erasure is committed nobody else may copy the workspace's content, so its transactions are timed too. Prints a row
per person and one JSON object as the last line; exits 1 when an erasure leaves anything to be found. No bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any
from unittest import mock

from benchmarks.large_ledger import large_ledger

PEOPLE = (
    ("one decision", {"unit": "user-once", "user": None}),
    ("a unit", {"unit": "user-62", "user": None}),
    ("a user", {"unit": None, "user": "person-26"}),
    ("a user, in shared episodes", {"unit": None, "user": "person-13"}),
    ("a twentieth of all", {"unit": "user-busy", "user": None}),
)


def erase(slug: str, person: Any) -> dict[str, Any]:
    from django.db import transaction

    from jobs.models import Job
    from jobs.runner import run_job
    from training.lineage.erasure import preview_erasure, start_erasure
    from workspaces.access.actors import system
    from workspaces.models import Workspace

    workspace = Workspace.objects.get(slug=slug)
    began = time.perf_counter()
    found = preview_erasure(workspace=workspace, person=person)
    looked = time.perf_counter() - began
    spans: list[float] = []
    enter, leave = transaction.Atomic.__enter__, transaction.Atomic.__exit__
    opened: list[float] = []

    def entered(self: Any) -> Any:
        opened.append(time.perf_counter())
        return enter(self)

    def left(self: Any, *error: Any) -> Any:
        leave(self, *error)
        spans.append(time.perf_counter() - opened.pop())

    job = start_erasure(by=system(workspace), person=person).job
    assert job is not None
    began = time.perf_counter()
    with mock.patch.multiple(transaction.Atomic, __enter__=entered, __exit__=left):
        run_job(job.id)
    seconds = time.perf_counter() - began
    state = Job.objects.get(id=job.id).state
    rest = preview_erasure(workspace=workspace, person=person)
    return {
        "decisions": found["decisions"],
        "rows": sum(number for name, number in found.items() if not name.endswith("_shared")),
        "preview_s": round(looked, 2),
        "erase_s": round(seconds, 2),
        "longest_transaction_s": round(max(spans), 2),
        "state": str(state),
        "left": rest["decisions"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100,000 decisions")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    people: dict[str, dict[str, Any]] = {}
    with large_ledger(100_000 if options.quick else 1_000_000) as slug:
        from training.lineage.erasure import read_person

        for name, who in PEOPLE:
            people[name] = told = erase(slug, read_person(**who))
            print(
                f"{name:<28} {told['decisions']:>7,} decisions  look {told['preview_s']:>5.2f} s  erased in"
                f" {told['erase_s']:>6.2f} s  longest transaction {told['longest_transaction_s']:>5.2f} s"
            )
    passed = all(told["state"] == "succeeded" and told["left"] == 0 < told["decisions"] for told in people.values())
    print(json.dumps({"benchmark": "erasure", "quick": options.quick, "passed": passed, "load_before": load,
                      "people": people}))  # fmt: skip
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
