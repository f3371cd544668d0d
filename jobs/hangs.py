"""Ends an attempt whose handler hangs: its heartbeat would renew the lease for ever, and its process would be lost to
other jobs. The runner wraps handlers in `watched`."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import structlog
from django.conf import settings
from django.db import DatabaseError, connection, transaction

from jobs.context import JobContext

logger = structlog.get_logger(__name__)

# A handler that hangs in a transaction of its own holds the job's row. The transaction would end with its process.
_END_TRANSACTION = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_locks
 WHERE pid = %s AND relation = 'jobs_job'::regclass AND mode = 'RowShareLock'
"""
_is_ours = False
"""Whether this process is a worker's child, which its parent replaces when it exits."""


def take_process() -> None:
    """From now on an attempt that cannot be ended otherwise ends with this process."""
    global _is_ours
    _is_ours = True


@contextmanager
def watched(context: JobContext, seconds: float, give_up: Callable[[str], object]) -> Iterator[None]:
    """Looks from a thread whether the handler gets on, until the block ends.

    After `seconds` without progress `context.check_owned()` raises Stalled, which loops that wait notice. A handler
    that does not is left to itself one lease later: `give_up`, in that thread, records that the attempt has failed with
    the reason, and a worker's process exits. It also exits once no thread has run in it for a lease, as in a call that
    holds the interpreter's lock: the lease has run out then.
    """
    over = threading.Event()
    handler = threading.get_ident()
    thread = threading.Thread(
        target=_watch, args=(context, seconds, give_up, handler, over), name=f"watch-{context.job_id}", daemon=True
    )
    _arm()  # a handler may take the interpreter's lock before the thread looks for the first time
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if _is_ours:
            faulthandler.cancel_dump_traceback_later()


def _watch(
    context: JobContext, seconds: float, give_up: Callable[[str], object], handler: int, over: threading.Event
) -> None:
    reason = f"it hung: no progress for {_describe(seconds)}"
    while not over.wait(min(seconds, settings.JOB_LEASE_SECONDS) / 6):
        _arm()
        silent = time.monotonic() - context.last_sign
        if silent < seconds:
            context.stalled = ""
        elif not context.stalled:
            context.stalled = reason
            frame = sys._current_frames().get(handler)
            stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
            logger.warning("job_stalled", job_id=str(context.job_id), kind=context.kind, stack=stack)
        elif silent >= seconds + settings.JOB_LEASE_SECONDS:
            _record(context, give_up, reason)
            if _is_ours:
                _exit()
            return


def _arm() -> None:
    if _is_ours:
        faulthandler.dump_traceback_later(settings.JOB_LEASE_SECONDS, exit=True, file=2)


def _describe(seconds: float) -> str:
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} seconds"


def _record(context: JobContext, give_up: Callable[[str], object], reason: str) -> None:
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(_END_TRANSACTION, [context.backend_pid])
                # Who holds the row otherwise is not waited for: the sweeper takes the job back.
                cursor.execute("SET LOCAL lock_timeout = '5s'")
            give_up(reason)
    except DatabaseError as error:
        logger.warning("job_stalled_unrecorded", error=repr(error))
    finally:
        connection.close()


def _exit() -> NoReturn:
    sys.stderr.flush()
    os._exit(1)
