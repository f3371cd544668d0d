"""The ends and the forks of the host's process, for every client in it."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from typing import Protocol

__all__ = ["add_sender", "register_exit"]


class _Sender(Protocol):
    def close_at_exit(self) -> None: ...

    def after_fork(self) -> None: ...


_senders: weakref.WeakSet[_Sender] = weakref.WeakSet()
_exit_registered_in: int | None = None


def add_sender(sender: _Sender) -> None:
    """To be told of both; not kept alive for it."""
    _senders.add(sender)


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
    for sender in list(_senders):
        sender.close_at_exit()


def _forget_all() -> None:
    for sender in list(_senders):
        sender.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
