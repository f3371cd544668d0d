"""The hourly Celery task of this floor: removes expired answers to repeated requests, and ended sessions."""

from __future__ import annotations

from celery import shared_task

from workspaces.http import idempotency
from workspaces.people.members import drop_ended_sessions


@shared_task(name="workspaces.tidy")
def tidy() -> None:
    idempotency.drop_old_answers()
    drop_ended_sessions()
