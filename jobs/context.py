"""What a job's handler is given: payload, progress, and the fence that refuses writes once the job was lost."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Greatest
from django.db.utils import DatabaseError

from jobs.errors import StaleFence, Stalled
from jobs.models import Job, JobState
from workspaces.models import Workspace
from workspaces.storage.clock import database_now


def renew_lease(job_id: uuid.UUID, fence: int) -> bool:
    """Extends the lease by the database's clock; False when this attempt no longer owns the job."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_job SET lease_until = clock_timestamp() + %s * interval '1 second'"
            " WHERE id = %s AND fence = %s AND state = 'running'",
            [settings.JOB_LEASE_SECONDS, job_id, fence],
        )
        return cursor.rowcount == 1


class JobContext:
    """Handed to the handler of one attempt. Every write goes through `fenced()` or carries the fence itself."""

    def __init__(self, job: Job) -> None:
        self.job_id: uuid.UUID = job.id
        self.kind = job.kind
        self.fence = job.fence
        self.attempt = job.attempts
        self.payload: dict[str, Any] = job.payload
        self.workspace: Workspace | None = job.workspace
        self.created_at = job.created_at
        self.completed = False
        self.last_sign = time.monotonic()
        self.stalled = ""
        self.backend_pid: int | None = None
        """Of the connection whose transaction was fenced last."""
        self._lost = threading.Event()
        self._stop = threading.Event()
        self._noted: tuple[float, str] | None = None

    def show_life(self) -> None:
        """The handler has got on. Whatever reports progress or writes calls it; asking whether to stop does not."""
        self.last_sign = time.monotonic()

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """A transaction that commits only while this attempt owns the job. Raises StaleFence."""
        self.show_life()
        with transaction.atomic():
            owned = (
                Job.objects.select_for_update()
                .filter(id=self.job_id, fence=self.fence, state=JobState.RUNNING)
                .values_list("id", flat=True)
                .first()
            )
            if owned is None:
                self._lost.set()
                raise StaleFence(f"job {self.job_id} is no longer owned by fence {self.fence}")
            self.backend_pid = connection.connection.info.backend_pid
            yield

    def complete(self, result: Mapping[str, Any] | None = None) -> None:
        """Marks the job succeeded in the same transaction as its effect. Call inside `fenced()`."""
        changed = Job.objects.filter(id=self.job_id, fence=self.fence, state=JobState.RUNNING).update(
            state=JobState.SUCCEEDED,
            result=dict(result or {}),
            lease_until=None,
            progress=1.0,
            finished_at=database_now(),
            error="",
        )
        if changed != 1:
            raise StaleFence(f"job {self.job_id} is no longer owned by fence {self.fence}")
        transaction.on_commit(self._mark_completed)

    def _mark_completed(self) -> None:
        self.completed = True

    def progress(self, fraction: float, message: str = "") -> None:
        """`fraction` in [0, 1]; what an earlier attempt had reached stands until this one is further. Raises
        StaleFence."""
        self.show_life()
        self._write_progress(fraction, message)

    def _write_progress(self, fraction: float, message: str) -> None:
        reached = Greatest(F("progress"), min(1.0, max(0.0, fraction)))
        changed = Job.objects.filter(id=self.job_id, fence=self.fence, state=JobState.RUNNING).update(
            progress=reached, message=message[:500]
        )
        if changed != 1:
            self._lost.set()
            raise StaleFence(f"job {self.job_id} is no longer owned by fence {self.fence}")

    def note_progress(self, fraction: float, message: str) -> None:
        """Progress from inside a long transaction, where `progress` would keep the row from the heartbeat: the next
        beat writes it."""
        self.show_life()
        self._noted = (fraction, message)

    def cancel_requested(self) -> bool:
        return Job.objects.filter(id=self.job_id, cancel_requested=True).exists()

    def check_owned(self) -> None:
        """Raises StaleFence once a heartbeat has found another owner, and Stalled after too long without progress.
        Loops that wait for something call it."""
        if self.stalled:
            raise Stalled(self.stalled)
        if self._lost.is_set():
            raise StaleFence(f"job {self.job_id} is no longer owned by fence {self.fence}")

    def confirm_owned(self) -> None:
        """Asks the database: after a freeze the heartbeat may not have looked yet. Call before an effect outside of a
        fenced transaction. Raises StaleFence."""
        with self.fenced():
            pass

    @contextmanager
    def heartbeat(self) -> Iterator[None]:
        """Renews the lease from a thread while the handler works; the runner wraps handlers in it."""
        thread = threading.Thread(target=self._beat, name=f"heartbeat-{self.job_id}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _beat(self) -> None:
        try:
            while not self._stop.wait(settings.JOB_LEASE_SECONDS / 6):
                try:
                    if not renew_lease(self.job_id, self.fence):
                        self._lost.set()
                        return
                    if (noted := self._noted) is not None:
                        self._noted = None
                        self._write_progress(*noted)
                except StaleFence:
                    return
                except DatabaseError:
                    # The database is away: the lease runs on, and the next beat uses a new connection.
                    connection.close()
        finally:
            connection.close()
