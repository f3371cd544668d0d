"""Exceptions that handlers raise to defer or end a job."""

from __future__ import annotations

from workspaces.errors import Conflict


class JobCancelled(Exception):
    """Raise in a handler once it has stopped cleanly after `JobContext.cancel_requested()`."""


class StaleFence(Exception):
    """Another attempt owns the job now: stop at once and write nothing."""


class Stalled(Exception):
    """The handler has shown no progress for longer than its kind may: the attempt has failed with this reason."""


class Permanent(Exception):
    """Trying again cannot help: the job is dead with this reason at its first attempt."""


class Defer(Exception):
    """Nothing to do yet: look again after `seconds`. Does not count as an attempt."""

    def __init__(self, seconds: float, *, progress: float | None = None, message: str | None = None) -> None:
        super().__init__(message or f"look again in {seconds} s")
        self.seconds = seconds
        self.progress = progress
        self.message = message


class AlreadyFinished(Conflict):
    code = "already_finished"


class NotRetryable(Exception):
    """A job that cannot be tried again, and why."""
