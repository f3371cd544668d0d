"""Stops the engine on SIGTERM, SIGINT, or the end of its standard input when it is supervised.

The request only sets a flag. The training loop and the evaluation check it between steps, leave a checkpoint and raise
`Stopped`, which becomes exit code 75.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType


class Stopped(Exception):
    """The work ended early because it was asked to, after `step` completed steps."""

    def __init__(self, reason: str, step: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.step = step


class StopFlag:
    """Set once, from a signal handler or a thread; `reason` is None until then."""

    def __init__(self) -> None:
        self.reason: str | None = None

    def request(self, reason: str) -> None:
        if self.reason is None:
            self.reason = reason

    def check(self, step: int = 0) -> None:
        """Raises Stopped when a stop was asked for."""
        if self.reason is not None:
            raise Stopped(self.reason, step)

    def watch_signals(self) -> None:
        """From now on SIGTERM and SIGINT set the flag. Main thread only."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def watch_stdin(self) -> None:
        """From now on the end of standard input sets the flag: a dead supervisor leaves no trainer behind."""
        threading.Thread(target=self._read_to_end, name="stdin-watch", daemon=True).start()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.request(signal.Signals(number).name)

    def _read_to_end(self) -> None:
        # os.read, because a daemon thread inside sys.stdin would hold its lock when the interpreter exits.
        try:
            while os.read(0, 4096):
                continue
        except OSError:
            # No standard input at all: nobody supervises this process.
            self.request("no standard input")
        self.request("end of standard input")
