"""`make accept PART=ledger`: the documents, made-up requests, kills while recording, a million decisions, and speed.

    python -m benchmarks.accept.ledger [--only NAME …] [--quick]

Long: about half an hour, most of it filling tables and measuring. `shown` runs the tests that send the real thing:
exporters, importers, the client, the notes app's requests, the matrix of who may do what, and erasure. The speeds are
of this machine and want it for themselves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from benchmarks.accept.ledger_browse import browse_rows
from benchmarks.accept.ledger_docs import docs_rows
from benchmarks.accept.ledger_ingest import generated_rows, kill_rows, speed_rows
from benchmarks.accept.ledger_openapi import openapi_rows
from benchmarks.accept.parts import run_parts
from benchmarks.accept.shown import shown_rows
from tools.instance import Instance
from tools.killing import run_on_instance
from tools.report import Report

SHOWN = {
    "traces by the real SDK exporter and a real instrumentation package": ["tests/decisions/traces"],
    "the Python client in a host of its own": ["tests/clients/python"],
    "eight importers, with a real MLflow and 200 real episodes": ["tests/decisions/importers"],
    "the notes app's requests, and an item's end reaching its decisions": [
        "tests/decisions/notes_app",
        "tests/decisions/rewards/test_maturing.py",
        "tests/decisions/labelling/test_items.py",
    ],
    "keys, and the matrix of endpoint, role and foreign object": [
        "tests/architecture/test_api_matrix.py",
        "tests/workspaces/test_key_life.py",
        "tests/workspaces/test_keys_and_audit.py",
    ],
    "erasure, down to datasets and models": [
        "tests/decisions/erasure/test_erased_decisions.py",
        "tests/training/test_erasure.py",
    ],
}


def documents(report: Report, quick: bool) -> None:
    openapi_rows(report)
    docs_rows(report)


def shown(report: Report, quick: bool) -> None:
    os.environ["RECKONER_MLFLOW"] = "1"  # MLflow writes its traces anew
    shown_rows(report, SHOWN)


def kills(report: Report, quick: bool) -> None:
    def work(instance: Instance, token: str) -> None:
        kill_rows(report, instance, token, web=5 if quick else 50, postgres=1 if quick else 10)

    run_on_instance(work)


def generated(report: Report, quick: bool) -> None:
    def work(instance: Instance, token: str) -> None:
        generated_rows(report, instance, token, requests=500 if quick else 5000)

    run_on_instance(work)


def lists(report: Report, quick: bool) -> None:
    browse_rows(report, quick=quick)


def speed(report: Report, quick: bool) -> None:
    speed_rows(report, quick=quick)


PARTS: dict[str, Callable[[Report, bool], None]] = {
    "documents": documents,
    "shown": shown,
    "kills": kills,
    "generated": generated,
    "lists": lists,
    "speed": speed,
}

if __name__ == "__main__":
    sys.exit(run_parts("ledger", PARTS, description=__doc__, quick="a tenth of the kills, requests and rows"))
