"""Registers the jobs that need every floor (the demo, the daily removal), with the task by which beat queues them."""

from __future__ import annotations

from celery import shared_task

from jobs.registry import job_kind
from jobs.services import enqueue_daily
from project.demo.loop import KIND, run_demo_loop
from project.upkeep.lifetimes import REMOVE_EXPIRED, remove_in_job

# Kept: starting the demo checks whether there ever was one.
job_kind(KIND, kept=True)(run_demo_loop)
job_kind(REMOVE_EXPIRED)(remove_in_job)


@shared_task(name="project.queue_removal")
def queue_removal() -> None:
    enqueue_daily(kind=REMOVE_EXPIRED, hour=4)
