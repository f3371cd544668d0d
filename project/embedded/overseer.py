"""Runs supervisord in a process of its own, and stops it in order when `up` ends, however it ends.

`python -m project.embedded.overseer CONFIG` with a pipe as standard input: the kernel closes the pipe when the process
at the other end dies, even by SIGKILL, and then supervisord gets the SIGTERM that makes it stop its programs in order.
"""

import os
import signal
import sys
import threading

from supervisor import supervisord


def _stop_at_end_of_input() -> None:
    while os.read(0, 4096):
        continue
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_stop_at_end_of_input, daemon=True).start()
    supervisord.main(["--nodaemon", "--configuration", sys.argv[1]])
