"""Recognises a full disk, ours or the database's, whatever raised the error: `api_errors`, the pages, the gateway, jobs
and commands tell it by the same words."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from workspaces.errors import DiskFull

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
DATABASE_FULL = "53100"
"""PostgreSQL's SQLSTATE disk_full."""
NO_TEMPORARY = "No usable temporary directory"
"""How `tempfile` begins where it can write nowhere, by which it hides why."""


def find_full_disk(error: BaseException | None) -> DiskFull | None:
    """The error for clients where a full disk is why `error` was raised."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, DiskFull):
            return error
        if getattr(error, "sqlstate", None) == DATABASE_FULL:
            return DiskFull("The database's disk is full. Nothing was kept. Send the same again once there is space.")
        if isinstance(error, OSError) and (error.errno in FULL or NO_TEMPORARY in str(error.strerror)):
            return DiskFull("The server's disk is full. Nothing was kept. Send the same again once there is space.")
        error = error.__cause__
    return None


@contextmanager
def disk_full_raised() -> Iterator[None]:
    """Raises DiskFull for a full disk inside it, which no reader of files then takes for a fault of the file."""
    try:
        yield
    except OSError as error:
        if (full := find_full_disk(error)) is not None:
            raise full from error
        raise
