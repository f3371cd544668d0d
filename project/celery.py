"""The Celery application and beat's schedule. Messages only name a job; jobs live in PostgreSQL."""

from __future__ import annotations

import os

from celery import Celery
from celery.schedules import crontab

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
# Django's checks load the whole web into every worker. `manage.py` runs them before these start.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")


def make_app() -> Celery:
    made = Celery("reckoner")
    made.config_from_object("django.conf:settings", namespace="CELERY")
    made.on_after_configure.connect(schedule)
    return made


def schedule(sender: Celery, **_: object) -> None:
    from django.conf import settings

    sender.conf.beat_schedule = {
        "sweep": {"task": "jobs.sweep", "schedule": settings.JOB_SWEEP_SECONDS},
        "outcomes": {"task": "decisions.queue_outcomes", "schedule": settings.OUTCOME_SECONDS},
        "backends": {"task": "registry.watch", "schedule": settings.BACKEND_CHECK_SECONDS},
        "shadows": {"task": "training.queue_shadows", "schedule": settings.SHADOW_SECONDS},
        "nightly-rewards": {"task": "decisions.queue_nightly_rewards", "schedule": crontab(minute=0)},
        "judges": {"task": "decisions.queue_judges", "schedule": crontab(minute=5)},
        "tidy": {"task": "workspaces.tidy", "schedule": crontab(minute=20)},
        "partitions": {"task": "decisions.queue_partitions", "schedule": crontab(minute=10)},
        "removal": {"task": "project.queue_removal", "schedule": crontab(minute=40)},
        "retention": {"task": "decisions.queue_retention", "schedule": crontab(minute=30)},
    }


app = make_app()
# Celery's "current" application is thread-local, and web processes send hints from many threads.
app.set_default()
app.autodiscover_tasks()
