"""`manage.py erase_person`: erases a person from the ledger and marks datasets and versions."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from jobs.runner import run_job
from training.lineage.erasure import preview_erasure, read_person, start_erasure
from training.models import Erasure
from workspaces.access.actors import system
from workspaces.commands import UncheckedCommand
from workspaces.errors import InvalidInput
from workspaces.models import Workspace

EXIT_FAILED, EXIT_BAD_INPUT = 1, 2
LOOK_SECONDS = 0.5


class Command(UncheckedCommand):
    help = (
        "Erases a person from the ledger and marks datasets and versions made from their data (docs/erasure.md). "
        "Exit codes: 0 erased or counted, 1 it failed, 2 the input is invalid."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--unit", help="the unit of the decisions to erase")
        parser.add_argument("--user", help="the app's own reference to the user, user_ref")
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument("--dry-run", action="store_true", help="only count, change nothing")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        slug = options["workspace"]
        found = list(Workspace.objects.filter(**({"slug": slug} if slug else {}))[:2])
        if len(found) != 1:
            self._refuse(f"--workspace: {len(found) or 'no'} workspaces fit; name one")
        try:
            person = read_person(unit=options["unit"], user=options["user"])
        except InvalidInput as error:
            self._refuse("; ".join(f"--{fault.field}: {fault.reason}" for fault in error.faults))
        if options["dry_run"]:
            counts = preview_erasure(workspace=found[0], person=person)
            self._report({"dry_run": True, "counts": counts}, as_json=options["json"])
            return
        erasure = self._run(start_erasure(by=system(found[0]), person=person))
        report = {"erasure": str(erasure.id), "state": erasure.state, "counts": erasure.counts}
        self._report(report, as_json=options["json"])
        if erasure.finished_at is None:
            self.stderr.write(erasure.job.error if erasure.job is not None else "no job")
            sys.exit(EXIT_FAILED)

    def _run(self, erasure: Erasure) -> Erasure:
        """Does the job here, or watches the worker that was quicker."""
        job = erasure.job
        assert job is not None
        while not job.is_terminal:
            if run_job(job.id) is None:
                time.sleep(LOOK_SECONDS)
            else:
                time.sleep(min(LOOK_SECONDS, settings.JOB_RETRY_SECONDS))
            job.refresh_from_db()
            self.stderr.write(f"{job.progress:.0%} {job.message}", lambda text: text)
        return Erasure.objects.select_related("job").get(id=erasure.id)

    def _report(self, report: dict[str, Any], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(report))
            return
        if "state" in report:
            self.stdout.write(f"erasure {report['erasure']}: {report['state']}")
        for name, number in report["counts"].items():
            self.stdout.write(f"{name.replace('_', ' '):>16} {number}")

    def _refuse(self, reason: str) -> None:
        self.stderr.write(reason)
        sys.exit(EXIT_BAD_INPUT)
