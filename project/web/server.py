"""gunicorn's settings: `python -m gunicorn -c python:project.web.server --bind HOST:PORT project.wsgi:application`.

One process loads Django and forks the workers, which share its memory. A worker that dies is replaced at once.
"""

from __future__ import annotations

import gc
from typing import Any

from project.logging import LOGGING

gc.disable()  # loading makes much that stays: going through it again and again took a seventh of the time

bind = "127.0.0.1:8000"
worker_class = "project.web.connections.WaitressWorker"
preload_app = True
workers = 4
threads = 4
# A worker whose thread of the sockets has not come round for so long is killed; it does in half a second.
timeout = 60
graceful_timeout = 5
control_socket_disable = True
logconfig_dict = LOGGING


def when_ready(arbiter: Any) -> None:
    """Called by gunicorn when the application is loaded, before it forks."""
    gc.enable()
