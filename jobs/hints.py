"""Tells workers through the broker that a job is due. A lost message loses no work: the sweeper sends another one."""

from __future__ import annotations

import datetime as dt
import uuid

import structlog
from celery import current_app
from django.db.models import F
from kombu.exceptions import OperationalError

from jobs.models import Outbox
from workspaces.storage.broker_errors import AWAY, is_away
from workspaces.storage.clock import database_now

logger = structlog.get_logger(__name__)


def send_hint(job_id: uuid.UUID, queue: str, *, run_after: dt.datetime | None = None) -> bool:
    """True when the broker took it. A dead broker is logged and left to the sweeper."""
    wait = max(0.0, (run_after - database_now()).total_seconds()) if run_after is not None else 0.0
    try:
        current_app.send_task("jobs.run", args=[str(job_id)], queue=queue, countdown=wait or None, retry=False)
    except (OperationalError, *AWAY) as error:
        if not isinstance(error, OperationalError) and not is_away(error):
            raise
        logger.warning("hint_not_sent", job_id=str(job_id), error=str(error))
        return False
    Outbox.objects.filter(job_id=job_id).update(sent_at=database_now(), sends=F("sends") + 1)
    return True
