"""Handles exits and forks of the program's process, for every client in it."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from typing import Any

senders: weakref.WeakSet[Any] = weakref.WeakSet()  # are told of both, by `close_at_exit` and `after_fork`
_exit_registered_in: int | None = None


def register_exit() -> None:
    """Once a process, when it first records: children forked by multiprocessing forget what was registered before."""
    global _exit_registered_in
    if _exit_registered_in == os.getpid():
        return
    _exit_registered_in = os.getpid()
    atexit.register(_close_all)
    # Before Python 3.13 such a child ends by os._exit and runs only finalizers of its own; so does billiard, Celery's.
    for name in ("multiprocessing", "billiard"):
        process, util = sys.modules.get(f"{name}.process"), sys.modules.get(f"{name}.util")
        if process is not None and util is not None and getattr(process.current_process(), "_parent_pid", None):
            util.Finalize(None, _close_all, exitpriority=10)


def _close_all() -> None:
    for sender in list(senders):
        sender.close_at_exit()


def _forget_all() -> None:
    for sender in list(senders):
        sender.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
