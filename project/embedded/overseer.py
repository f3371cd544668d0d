"""Runs supervisord in a process of its own, and stops it in order when `up` ends, however it ends.

`python -m project.embedded.overseer CONFIG` with a pipe as standard input: the kernel closes the pipe when the process
at the other end dies, even by SIGKILL, and then supervisord gets the SIGTERM that makes it stop its programs in order.
"""

import os
import signal
import sys
import threading
from typing import Any

from supervisor import poller, supervisord


class PromptPoller(poller.PollPoller):  # type: ignore[misc]
    """Returns when a signal arrives, so that supervisord notices an ended program, and stops the next group, at once.

    Python resumes a system call that a signal interrupts (PEP 475): supervisord's own poller waits to the end of its
    second.
    """

    def initialize(self) -> None:
        super().initialize()
        self.signalled, written = os.pipe()
        for end in (self.signalled, written):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        self.register_readable(self.signalled)

    def poll(self, timeout: float) -> tuple[list[Any], list[Any]]:
        readable, writable = super().poll(timeout)
        if self.signalled in readable:
            os.read(self.signalled, 4096)
            readable.remove(self.signalled)
        return readable, writable


def _stop_at_end_of_input() -> None:
    while os.read(0, 4096):
        continue
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_stop_at_end_of_input, daemon=True).start()
    poller.Poller = PromptPoller
    supervisord.main(["--nodaemon", "--configuration", sys.argv[1]])
