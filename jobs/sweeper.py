"""Takes back jobs whose lease ran out, and announces due jobs again. Beat runs it; nothing else finds lost work."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from jobs.hints import send_hint
from jobs.models import TERMINAL, Job, JobState, Outbox
from jobs.services import notify_end
from workspaces.storage.clock import database_now

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Swept:
    """How many jobs were taken back, how many of them ended, and how many hints were sent."""

    taken_back: int
    ended: int
    hinted: int


def sweep() -> Swept:
    """Safe to run at any time, by any number of sweepers."""
    taken_back, ended = _take_back_expired()
    return Swept(taken_back, ended, _send_due_hints())


def resume_alone(*, clean: bool) -> Swept:
    """After a start of the only instance on this database: no worker lives, so every lease is void at once.

    `clean`: the instance before was stopped in order, and its cut attempts do not count. After a crash they do: a job
    that takes the whole machine down must not be tried for ever.
    """
    cut = Job.objects.filter(state=JobState.RUNNING)
    cut.update(lease_until=Now() - dt.timedelta(seconds=1))
    if clean:
        cut.filter(attempts__gt=0).update(attempts=F("attempts") - 1)
    # What the broker knew is gone with it.
    Outbox.objects.filter(job__state=JobState.QUEUED).update(sent_at=None)
    return sweep()


def _take_back_expired() -> tuple[int, int]:
    """One transaction a job: one that cannot be ended must not keep the others from being taken back."""
    expired = Job.objects.filter(state=JobState.RUNNING, lease_until__lt=Now()).values_list("id", flat=True)
    states = [_take_back(job_id) for job_id in list(expired)]
    return sum(state is not None for state in states), sum(state in TERMINAL for state in states)


def _take_back(job_id: uuid.UUID) -> str | None:
    """The job's new state, or None when it was not to be had: renewed, or taken by another sweeper."""
    try:
        with transaction.atomic():
            job = (
                Job.objects.select_for_update(skip_locked=True)
                .filter(id=job_id, state=JobState.RUNNING, lease_until__lt=Now())
                .first()
            )
            if job is None:
                return None
            job.lease_until = None
            # The fence moves here too: the lost attempt must not write even before the next claim.
            job.fence = job.fence + 1
            if job.cancel_requested:
                job.state, job.error = JobState.CANCELLED, "cancelled; its worker was lost"
            elif job.attempts >= job.max_attempts:
                job.state, job.error = JobState.DEAD, f"its worker was lost {job.attempts} times"
            else:
                job.state, job.error = JobState.QUEUED, "its worker was lost"
                job.run_after = database_now()
            if job.is_terminal:
                job.finished_at = database_now()
            job.save(update_fields=["lease_until", "fence", "state", "error", "run_after", "finished_at"])
            if job.is_terminal:
                notify_end(job)
    except Exception:
        logger.exception("job_not_taken_back", job_id=str(job_id))
        return None
    logger.warning("job_taken_back", job_id=str(job.id), kind=job.kind, state=job.state)
    return str(job.state)


def _send_due_hints() -> int:
    """Due jobs whose last hint is older than a sweep: it was lost, or the queue is long and one more does no harm."""
    patience = dt.timedelta(seconds=settings.JOB_SWEEP_SECONDS * 0.9)
    due = (
        Job.objects.filter(state=JobState.QUEUED, run_after__lte=Now())
        .filter(
            Q(outbox__sent_at__isnull=True)
            | Q(outbox__sent_at__lt=Now() - patience)
            | Q(outbox__sent_at__lt=F("run_after"))
        )
        .order_by("run_after")
        .values_list("id", "queue")[:1000]
    )
    sent = 0
    for job_id, queue in due:
        if not send_hint(job_id, queue):
            break  # the broker is away: the next sweep tries again
        sent += 1
    return sent
