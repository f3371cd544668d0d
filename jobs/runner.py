"""Claims a job, runs its handler, and records how it ended."""

from __future__ import annotations

import datetime as dt
import traceback
import uuid

import structlog
from django.conf import settings
from django.db import connection, transaction

from jobs.context import JobContext
from jobs.errors import Defer, JobCancelled, Permanent, StaleFence, Stalled
from jobs.hangs import watched
from jobs.hints import send_hint
from jobs.models import Job, JobState
from jobs.registry import list_kinds
from jobs.services import notify_end
from workspaces.storage.clock import database_now
from workspaces.storage.full_disk import find_full_disk

logger = structlog.get_logger(__name__)

# A second of tolerance: the clock that set run_after may be ahead of the database's.
CLAIM = """
UPDATE jobs_job
   SET state = 'running', attempts = attempts + 1, fence = fence + 1, error = '',
       lease_until = clock_timestamp() + %(lease)s * interval '1 second',
       started_at = coalesce(started_at, clock_timestamp())
 WHERE id = %(id)s AND state = 'queued'
   AND run_after <= clock_timestamp() + interval '1 second' AND NOT cancel_requested
"""


WAITS_FOR_SPACE = dt.timedelta(days=1)
"""From a job's creation on. Some causes of the same error never pass, such as a small /dev/shm: later it uses up its
attempts as with any other error."""


def claim_job(job_id: uuid.UUID) -> Job | None:
    """The job, now ours, or None: someone else's, not due, or over. Exactly one of many claimers wins."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(CLAIM, {"lease": settings.JOB_LEASE_SECONDS, "id": job_id})
        if cursor.rowcount != 1:
            return None
        return Job.objects.select_related("workspace").get(id=job_id)


def run_job(job_id: uuid.UUID) -> JobState | None:
    """Claims and runs one job; the state it was left in, or None when there was nothing to do."""
    job = claim_job(job_id)
    if job is None:
        return None
    context = JobContext(job)
    kind = list_kinds().get(job.kind)
    with structlog.contextvars.bound_contextvars(job_id=str(job.id), kind=job.kind, fence=job.fence):
        try:
            if kind is None:
                raise Permanent(f"no handler for job kind {job.kind}")

            def give_up(reason: str) -> None:
                _fail(context, job, reason)

            with context.heartbeat(), watched(context, getattr(settings, kind.stall_setting), give_up):
                result = kind.handler(context)
            if not context.completed:
                with context.fenced():
                    context.complete(result)
            return JobState.SUCCEEDED
        except StaleFence as error:
            logger.warning("job_lost", error=str(error))
            return None
        except Defer as later:
            return _defer(context, later)
        except JobCancelled:
            return _end(context, JobState.CANCELLED, "cancelled")
        except Permanent as error:
            return _end(context, JobState.DEAD, str(error))
        except Stalled as error:
            return _fail(context, job, str(error))
        except Exception as error:
            logger.warning("job_attempt_failed", error=repr(error), exc_info=True)
            if (full := find_full_disk(error)) is not None and database_now() - job.created_at < WAITS_FOR_SPACE:
                return _wait_for_space(context, job.max_attempts, full.message)
            return _fail(context, job, "".join(traceback.format_exception_only(error)).strip())


def _fail(context: JobContext, job: Job, reason: str) -> JobState | None:
    if job.attempts >= job.max_attempts:
        return _end(context, JobState.DEAD, reason)
    return _retry(context, reason)


def _end(context: JobContext, state: JobState, reason: str) -> JobState | None:
    try:
        with context.fenced():
            Job.objects.filter(id=context.job_id).update(
                state=state, error=reason, lease_until=None, finished_at=database_now()
            )
            notify_end(Job.objects.get(id=context.job_id))
    except StaleFence:
        return None
    logger.info("job_ended", state=state, reason=reason)
    return state


def _retry(context: JobContext, reason: str) -> JobState | None:
    """Back to the queue, later each time: what is away for some minutes must not use up all attempts."""
    wait = settings.JOB_RETRY_SECONDS * settings.JOB_RETRY_FACTOR ** (context.attempt - 1)
    return _requeue(context, wait, {"error": reason})


def _wait_for_space(context: JobContext, max_attempts: int, reason: str) -> JobState | None:
    """Back to the queue after the longer wait, with an attempt left: nothing but space makes the next one succeed, and
    whoever makes it need not know which jobs to start again."""
    wait = settings.JOB_RETRY_SECONDS * settings.JOB_RETRY_FACTOR
    return _requeue(context, wait, {"error": reason, "attempts": min(context.attempt, max_attempts - 1)})


def _defer(context: JobContext, later: Defer) -> JobState | None:
    changes: dict[str, object] = {"attempts": context.attempt - 1}
    if later.progress is not None:
        changes["progress"] = min(1.0, max(0.0, later.progress))
    if later.message is not None:
        changes["message"] = later.message[:500]
    return _requeue(context, later.seconds, changes)


def _requeue(context: JobContext, seconds: float, changes: dict[str, object]) -> JobState | None:
    run_after = database_now() + dt.timedelta(seconds=seconds)
    try:
        with context.fenced():
            # Cancelling takes the same lock. A queued job with a cancel request is never claimed, so it ends here.
            if context.cancel_requested():
                return _end(context, JobState.CANCELLED, str(changes.get("error") or "cancelled"))
            Job.objects.filter(id=context.job_id).update(
                state=JobState.QUEUED, lease_until=None, run_after=run_after, **changes
            )
            queue = Job.objects.values_list("queue", flat=True).get(id=context.job_id)
            transaction.on_commit(lambda: send_hint(context.job_id, queue, run_after=run_after))
    except StaleFence:
        return None
    return JobState.QUEUED
