"""gunicorn's settings: `python -m gunicorn -c python:project.web.server --bind HOST:PORT project.wsgi:application`.

One process loads Django and forks the workers, which share its memory. A worker that dies is replaced at once.
"""

from __future__ import annotations

from project.logging import LOGGING

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
