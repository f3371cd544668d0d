"""What the registry does by itself: it looks after backends, and after calls that nobody closed."""

from __future__ import annotations

import datetime as dt

from celery import shared_task
from django.conf import settings

from models_registry.backends.checking import check_backends
from models_registry.calls.records import close_abandoned


# No job: what it notes is worth nothing a minute later, and the next look is due then anyway.
@shared_task(name="registry.watch")
def watch() -> None:
    try:
        check_backends()
    finally:  # calls that nobody closed are swept whatever became of the backends
        close_abandoned(older_than=dt.timedelta(seconds=settings.CALL_SECONDS))
