"""The worker's pool of processes, driven by Celery's own loop."""

import subprocess
import sys

import pytest

from project.embedded.layout import PROJECT_ROOT

# The process closes its files, by which its end is noticed, and can be waited for later. Without the round of every
# 5 seconds only another look replaces it.
PROGRAM = """
import os, time
from kombu.asynchronous import Hub, set_event_loop
from jobs.pool import ReplacingPool

def end_slowly():
    os.closerange(3, 1000)
    time.sleep(0.4)
    os._exit(1)

class Pool(ReplacingPool):
    timers = {}

hub = Hub()
set_event_loop(hub)
pool = Pool(1, threads=False)
pool.register_with_event_loop(hub)
first = pool._pool[0].pid
pool.apply_async(end_slowly)
ends = time.monotonic() + 60
while [one.pid for one in pool._pool] in ([first], []) and time.monotonic() < ends:
    hub.call_later(0.1, str)
    hub.run_once()
print("replaced" if pool._pool[0].pid != first else "not replaced", flush=True)
pool.terminate()
os._exit(0)
"""


@pytest.mark.slow
def test_a_process_that_is_still_ending_when_its_end_is_noticed_is_replaced() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "replaced\n", done.stderr
