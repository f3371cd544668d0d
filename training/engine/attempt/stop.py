"""Stops the engine on SIGTERM, SIGINT, or the end of its standard input when it is supervised.

The request only sets a flag. The training loop and the evaluation check it between steps, leave a checkpoint and raise
`Stopped`, which becomes exit code 75. Work in one piece, such as a trace, runs in `watched`, which ends the process.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from training.engine.attempt.events import Events
from training.engine.spec.run_spec import EXIT_STOPPED

LOOK_SECONDS = 0.5
BEAT_SECONDS = 5.0


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


@contextmanager
def watched(stop: StopFlag, events: Events, fraction: float, message: str) -> Iterator[None]:
    """Around work that cannot look at the flag and leaves nothing to resume from: a thread writes every few seconds how
    long it has taken, and ends the process soon after a stop was asked for. The work itself must write no events."""
    over, began = threading.Event(), time.monotonic()

    def watch() -> None:
        next_beat = began + BEAT_SECONDS
        while not over.wait(LOOK_SECONDS):
            now = time.monotonic()
            if stop.reason is not None:
                events.write("stopped", reason=stop.reason, step=0)
                os._exit(EXIT_STOPPED)
            if now >= next_beat:
                next_beat = now + BEAT_SECONDS
                events.progress(round(100 * fraction), 100, f"{message}, {now - began:.0f} s")

    thread = threading.Thread(target=watch, name="work-watch", daemon=True)
    events.progress(round(100 * fraction), 100, message)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
