"""`manage.py retry_jobs`: makes dead jobs due again, once their fault is fixed."""

from __future__ import annotations

import json
import sys
import uuid
from typing import Any

from django.core.management.base import CommandParser

from jobs.errors import NotRetryable
from jobs.models import Job, JobState
from jobs.services import retry_job
from workspaces.commands import UncheckedCommand

EXIT_REFUSED, EXIT_UNKNOWN = 1, 2


class Command(UncheckedCommand):
    help = (
        "Retries dead jobs, by ID or by kind. "
        "Exit codes: 0 queued again, 1 some cannot be retried, 2 no dead job matches."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("jobs", nargs="*", type=uuid.UUID, metavar="ID", help="ID of a job")
        parser.add_argument("--kind", help="every dead job of this kind, such as decisions.calculate_rewards")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        chosen = Job.objects.filter(id__in=options["jobs"])
        if options["kind"]:
            chosen = Job.objects.filter(kind=options["kind"], state=JobState.DEAD)
        found = list(chosen.order_by("id"))
        if not found or (not options["kind"] and len(found) < len(set(options["jobs"]))):
            self.stderr.write("No dead job matches.")
            sys.exit(EXIT_UNKNOWN)
        retried: list[str] = []
        refused: dict[str, str] = {}
        for job in found:
            try:
                retry_job(job_id=job.id)
                retried.append(str(job.id))
            except NotRetryable as error:
                refused[str(job.id)] = str(error)
                self.stderr.write(f"{job.id} ({job.kind}): {error}")
        if options["json"]:
            self.stdout.write(json.dumps({"retried": retried, "refused": refused}))
        else:
            for job_id in retried:
                self.stdout.write(f"{job_id} is due again")
        if refused:
            sys.exit(EXIT_REFUSED)
