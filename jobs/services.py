"""Enqueues, cancels and retries jobs, within the transaction of the change that needs them. Every floor calls these."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction

from jobs import hints
from jobs.errors import AlreadyFinished, NotRetryable
from jobs.models import TERMINAL, Job, JobState, Outbox
from jobs.registry import list_kinds
from workspaces.models import Workspace
from workspaces.storage.clock import database_now


@transaction.atomic
def enqueue_job(
    *,
    kind: str,
    workspace: Workspace | None = None,
    payload: Mapping[str, Any] | None = None,
    dedupe_key: str | None = None,
    run_after: dt.datetime | None = None,
    max_attempts: int = 3,
) -> Job:
    """Writes the job and its hint in the caller's transaction; the hint leaves on commit.

    With a `dedupe_key` that was used before, returns the job that is there, unless that one is dead: then this asks
    again. Raises KeyError for an unknown kind.
    """
    queue = list_kinds()[kind].queue
    job = Job(
        kind=kind,
        workspace=workspace,
        queue=queue,
        payload=dict(payload or {}),
        dedupe_key=dedupe_key,
        run_after=run_after or database_now(),
        max_attempts=max_attempts,
    )
    if dedupe_key is None:
        job.save(force_insert=True)
    else:
        existing = _insert_once(job)
        if existing.id != job.id:
            return existing
    Outbox.objects.create(job=job)
    transaction.on_commit(lambda: hints.send_hint(job.id, queue, run_after=job.run_after))
    return job


def _insert_once(job: Job) -> Job:
    """`job`, or the one that has its key already and is not dead."""
    while True:
        Job.objects.bulk_create([job], ignore_conflicts=True)
        found = Job.objects.filter(kind=job.kind, dedupe_key=job.dedupe_key).exclude(state=JobState.DEAD).first()
        if found is not None:  # else it died between the two statements
            return found


def enqueue_daily(*, kind: str, hour: int, now: dt.datetime | None = None) -> Job:
    """The job of the day that began at `hour` (UTC): asked for every hour, made once, and again after it died."""
    day = (now or database_now()) - dt.timedelta(hours=hour)
    return enqueue_job(kind=kind, dedupe_key=f"{day:%Y-%m-%d}")


@transaction.atomic
def retry_job(*, job_id: uuid.UUID) -> Job:
    """A dead job is due again, with all its attempts. Raises NotRetryable."""
    job = Job.objects.select_for_update().get(id=job_id)
    kind = list_kinds().get(job.kind)
    if job.state != JobState.DEAD:
        raise NotRetryable(f"it is {job.state}; only a dead job can be retried.")
    if kind is None or kind.on_end is not None:
        raise NotRetryable("the work it was part of has ended; start that again.")
    job.state, job.attempts, job.run_after, job.finished_at = JobState.QUEUED, 0, database_now(), None
    try:
        with transaction.atomic():
            job.save(update_fields=["state", "attempts", "run_after", "finished_at"])
    except IntegrityError as error:
        raise NotRetryable("another job has replaced it.") from error
    Outbox.objects.update_or_create(job=job, defaults={"sent_at": None})
    transaction.on_commit(lambda: hints.send_hint(job.id, job.queue))
    return job


@transaction.atomic
def request_cancel(*, job_id: uuid.UUID) -> Job:
    """A queued job is cancelled at once; a running one is told and ends itself. Raises AlreadyFinished."""
    job = Job.objects.select_for_update().get(id=job_id)
    if job.state in TERMINAL:
        raise AlreadyFinished(f"The job is already {job.state}.")
    job.cancel_requested = True
    if job.state == JobState.QUEUED:
        job.state = JobState.CANCELLED
        job.finished_at = database_now()
        notify_end(job)
    job.save(update_fields=["cancel_requested", "state", "finished_at"])
    return job


def notify_end(job: Job) -> None:
    """Tells the job's kind, inside the ending transaction, that it ended without success."""
    kind = list_kinds().get(job.kind)
    if kind is not None and kind.on_end is not None:
        kind.on_end(job)
