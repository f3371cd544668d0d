"""gunicorn's settings: `python -m gunicorn -c python:project.web.server --bind HOST:PORT project.wsgi:application`.

One process loads Django and forks the workers, which share its memory. A worker that dies is replaced at once. When the
first process is killed, its workers answer until the next one has loaded (`on_starting`).
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from gunicorn.sock import create_sockets

from project.listening import count_listeners
from project.logging import LOGGING

gc.disable()  # loading makes much that stays: going through it again and again took a seventh of the time
# A thread that computes, such as an export's, keeps the interpreter for so long while others wait, and a page waits
# after each of its statements. By default it is 5 ms.
sys.setswitchinterval(0.0005)

bind = "127.0.0.1:8000"
worker_class = "project.web.connections.WaitressWorker"
preload_app = True
workers = 4
threads = 4
# A worker whose thread of the sockets has not come round for so long is killed; it does in half a second.
timeout = 60
graceful_timeout = 6  # seconds: 5 for answers, and the rest for the calls that are open then
control_socket_disable = True
logconfig_dict = LOGGING


def on_starting(arbiter: Any) -> None:
    """Called by gunicorn before it listens.

    Makes the sockets that gunicorn would make, but so that they can stand beside those that the workers of a killed
    first process still hold, and several for each address where queues are short. Every worker accepts from all.
    """
    if all(isinstance(address, tuple) for address in arbiter.cfg.address):  # of a host and a port, not a path
        arbiter.cfg.set("reuse_port", True)
        arbiter.LISTENERS = [
            made for _ in range(count_listeners()) for made in create_sockets(arbiter.cfg, arbiter.log)
        ]
        # By gunicorn's own use of it, each worker would listen for itself, and connections would wait for a busy one.
        arbiter.cfg.set("reuse_port", False)


def worker_exit(arbiter: Any, worker: Any) -> None:
    """Called by gunicorn in a worker that ends. Its threads answer nothing more."""
    from models_registry.calls.unfinished import abandon_unfinished

    abandon_unfinished()


def when_ready(arbiter: Any) -> None:
    """Called by gunicorn when the application is loaded, before it forks."""
    gc.enable()
