"""The two Celery tasks of this floor: one runs a job, the other sweeps for lost ones."""

from __future__ import annotations

import uuid

from billiard import current_process
from celery import shared_task
from celery.signals import worker_process_init

from jobs import hangs, runner, sweeper


@shared_task(name="jobs.run")
def run(job_id: str) -> None:
    runner.run_job(uuid.UUID(job_id))


@shared_task(name="jobs.sweep")
def sweep() -> None:
    sweeper.sweep()


@worker_process_init.connect
def own_process(**_: object) -> None:
    # A child of the pool, which runs one job at a time. The solo pool sends the signal in its own process, which may be
    # anybody's, as in tests.
    if current_process().name != "MainProcess":
        hangs.take_process()
