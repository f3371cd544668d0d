"""The Celery application and beat's schedule. Messages only name a job; jobs live in PostgreSQL."""

from __future__ import annotations

import os

from celery import Celery
from celery.schedules import crontab

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

app = Celery("reckoner")
# Celery's "current" application is thread-local, and web processes send hints from many threads.
app.set_default()
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@app.on_after_configure.connect
def schedule(sender: Celery, **_: object) -> None:
    from django.conf import settings

    sender.conf.beat_schedule = {
        "sweep": {"task": "jobs.sweep", "schedule": settings.JOB_SWEEP_SECONDS},
        "outcomes": {"task": "decisions.queue_outcomes", "schedule": settings.OUTCOME_SECONDS},
        "nightly-rewards": {"task": "decisions.queue_nightly_rewards", "schedule": crontab(minute=0)},
        "tidy": {"task": "workspaces.tidy", "schedule": crontab(minute=20)},
        "partitions": {"task": "decisions.queue_partitions", "schedule": crontab(minute=10)},
        "removal": {"task": "project.queue_removal", "schedule": crontab(minute=40)},
        "retention": {"task": "decisions.queue_retention", "schedule": crontab(minute=30)},
    }
