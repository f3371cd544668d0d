"""The gateway's processes: one that has loaded everything forks those that serve, on one address, and looks after them.

A process that dies is replaced within a moment, as nothing is loaded again, and the others go on answering meanwhile.
One whose event loop has not come round for STUCK_SECONDS is killed, and replaced as well. When the first one is killed,
those that serve go on until `up` has started another and ends them.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from types import FrameType

import structlog

STUCK_SECONDS = 30.0
BEAT_SECONDS = 1.0
"""Between two signs of life of an event loop."""
LOOK_SECONDS = 0.2
PAUSED_SECONDS = 5.0
PAUSE_SECONDS = 1.0
"""Before a process that could not live for so long is replaced."""
ORPHANED_SECONDS = 300.0
"""How long those that serve go on without their first process, if nobody ends them."""
_MOMENT = struct.Struct("d")
Serve = Callable[[Callable[[], None]], None]
"""Serves connections until SIGTERM, and gives a sign of life every BEAT_SECONDS."""

log = structlog.get_logger(__name__)


class Processes:
    """`count` processes, each of which calls `serve`."""

    def __init__(self, count: int, serve: Serve) -> None:
        self._count, self._serve = count, serve
        self._beats = mmap.mmap(-1, count * _MOMENT.size)  # shared with the processes that are forked
        self._pids: dict[int, tuple[int, float]] = {}
        self._stopping = False
        self._orphaned = float("inf")
        """When a process that serves saw that its first process is gone."""

    def run(self) -> None:
        """Returns after SIGTERM or SIGINT, when all have ended."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        for place in range(self._count):
            self._fork(place)
        looked = time.monotonic()
        while self._pids:
            time.sleep(LOOK_SECONDS)
            self._replace_ended()
            now = time.monotonic()
            if now - looked > PAUSED_SECONDS:  # this process stood still, so the others may have, too
                for place, _ in self._pids.values():
                    self._beat(place)
            else:
                self._kill_stuck()
            looked = now

    def _fork(self, place: int) -> None:
        self._beat(place)
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self._pids[pid] = (place, time.monotonic())
            if self._stopping:  # the signal came in between
                _send(pid, signal.SIGTERM)
            return
        code = 1
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            self._serve(lambda: self._live_on(place, parent))
            code = 0
        except BaseException:
            log.exception("gateway_process_failed")
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _replace_ended(self) -> None:
        for pid in list(self._pids):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            place, began = self._pids.pop(pid)
            if self._stopping:
                continue
            log.error("gateway_process_ended", pid=pid, status=os.waitstatus_to_exitcode(status))
            time.sleep(max(0.0, began + PAUSE_SECONDS - time.monotonic()))
            self._fork(place)

    def _kill_stuck(self) -> None:
        for pid, (place, _) in self._pids.items():
            (beat,) = _MOMENT.unpack_from(self._beats, place * _MOMENT.size)
            if time.monotonic() - beat > STUCK_SECONDS:
                log.error("gateway_process_stuck", pid=pid, seconds=round(time.monotonic() - beat, 1))
                _send(pid, signal.SIGKILL)

    def _live_on(self, place: int, parent: int) -> None:
        self._beat(place)
        if os.getppid() != parent:
            self._orphaned = min(self._orphaned, time.monotonic())
        if time.monotonic() - self._orphaned > ORPHANED_SECONDS:
            os.kill(os.getpid(), signal.SIGTERM)

    def _beat(self, place: int) -> None:
        _MOMENT.pack_into(self._beats, place * _MOMENT.size, time.monotonic())

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        for pid in list(self._pids):
            _send(pid, signal.SIGTERM)


def _send(pid: int, number: int) -> None:
    """To a process that may have been waited for at this moment."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
