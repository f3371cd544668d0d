"""Waiting for what another process will do."""

import time


def wait_for(condition, seconds=60.0):
    """Return condition()'s first true value; fail after `seconds`, far beyond what it should take."""
    give_up = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.05)
    return value
