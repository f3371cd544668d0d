"""Working off the queue as workers would, without a broker."""

from __future__ import annotations

import time

from django.utils import timezone

from jobs.models import Job, JobState
from jobs.runner import run_job


def work_until_over(job: Job) -> Job:
    """What workers do, one job after the other, without a broker; deferred jobs are looked at again at once."""
    for _ in range(4000):
        job.refresh_from_db()
        if job.is_terminal:
            return job
        Job.objects.filter(state=JobState.QUEUED).update(run_after=timezone.now())
        for due in (
            Job.objects.filter(state=JobState.QUEUED).order_by("queue", "created_at").values_list("id", flat=True)
        ):
            run_job(due)
        time.sleep(0.02)
    raise AssertionError(f"the loop does not end: {job.message}")
