"""Removes jobs and hints after their time. Called by the daily job."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from django.db.models import PROTECT, QuerySet

from jobs.models import TERMINAL, Job, JobState, Outbox
from jobs.registry import list_kinds

BATCH = 1_000


def delete_ended_jobs(before: dt.datetime) -> Iterator[int]:
    """Jobs that succeeded or were cancelled before then; yields how many went in each batch.

    Those stay that a run, an export or another row points at, and those of kinds that are kept for ever.
    """
    return _delete_jobs([state for state in TERMINAL if state != JobState.DEAD], before)


def delete_dead_jobs(before: dt.datetime) -> Iterator[int]:
    """The same of jobs that died."""
    return _delete_jobs([JobState.DEAD], before)


def _delete_jobs(states: list[JobState], before: dt.datetime) -> Iterator[int]:
    held = {f"{relation.name}__isnull": True for relation in Job._meta.related_objects if relation.on_delete is PROTECT}
    kept = [kind.name for kind in list_kinds().values() if kind.kept]
    return _in_batches(Job.objects.filter(state__in=states, finished_at__lt=before, **held).exclude(kind__in=kept))


def delete_hints(before: dt.datetime) -> Iterator[int]:
    """Hints of jobs that ended before then; yields how many went in each batch."""
    return _in_batches(Outbox.objects.filter(job__finished_at__lt=before))


def _in_batches(rows: QuerySet[Job] | QuerySet[Outbox]) -> Iterator[int]:
    while ids := list(rows.values_list("id", flat=True)[:BATCH]):
        rows.model._default_manager.filter(id__in=ids).delete()
        yield len(ids)
