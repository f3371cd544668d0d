"""Stands for the web process in the supervisor's tests: answers /readyz from a child process, as gunicorn's workers do.

usage: small_web.py PORT. Loading takes SMALL_WEB_SECONDS, if that is set.
"""

import http.server
import os
import signal
import sys
import time

import psutil


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{os.getpid()} {os.environ['DATABASE_URL']}".encode())

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    allow_reuse_address = True
    allow_reuse_port = True


def end_child(*_):
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)
    os._exit(0)


time.sleep(float(os.environ.get("SMALL_WEB_SECONDS", 0)))
child = os.fork()
if child == 0:
    port = int(sys.argv[1])
    try:
        server = Server(("127.0.0.1", port), Handler)
    except OSError:
        # Whoever holds the port is worth knowing when this fails once in a while.
        holders = [held for held in psutil.net_connections("tcp") if held.laddr and held.laddr.port == port]
        sys.stderr.write(f"port {port} is held by {holders}\n")
        raise
    server.serve_forever()
signal.signal(signal.SIGTERM, end_child)
os.waitpid(child, 0)
