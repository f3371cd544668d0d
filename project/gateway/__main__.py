"""The gateway's process: `python -m project.gateway`, stopped by SIGTERM.

aiohttp, which asks the models, serves here as well: no bridge lies between the two (docs/adr/0033).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from aiohttp import web

from project.gateway.processes import BEAT_SECONDS, Processes
from project.listening import count_listeners

if TYPE_CHECKING:
    from project.gateway.app import Gateway

STOP_SECONDS = 5.0
"""How long answers that grow may go on after SIGTERM."""
LAST_SECONDS = 0.2
"""For the requests of connections that were accepted just before the end."""
IDLE_SECONDS = 75.0
"""How long a connection may lie idle, or take for the head of a request."""
BACKLOG = 1024
MOST_FILES = 65_536
EXIT_CANNOT_LISTEN = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until SIGTERM or SIGINT, then returns 0; 2 where it cannot listen."""
    parser = argparse.ArgumentParser(prog="python -m project.gateway", description="Answers OpenAI's clients.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8020, help="port to listen on (default 8020)")
    options = parser.parse_args(arguments)
    if not 0 <= options.port <= 65_535:
        parser.error(f"argument --port: {options.port} must be 0 to 65535")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    gc.disable()  # as project/web/server.py
    django.setup()
    from django.conf import settings

    from project.allocation import give_back_large_blocks
    from project.gateway.app import Gateway
    from project.postgresql.watch import watch_database

    give_back_large_blocks()
    watch_database()
    gc.collect()
    gc.freeze()  # as project/wsgi.py
    gc.set_threshold(10_000, 20, 20)
    gc.enable()
    _allow_connections()
    try:
        listeners = [_listen(options.host, options.port) for _ in range(count_listeners())]
    except (OSError, UnicodeError) as error:
        sys.stderr.write(f"{options.host}:{options.port}: {error}\n")
        return EXIT_CANNOT_LISTEN

    def serve(beat: Callable[[], None]) -> None:
        asyncio.run(_serve(Gateway(), listeners, beat))

    Processes(settings.GATEWAY_PROCESSES, serve).run()
    return 0


def _listen(host: str, port: int) -> socket.socket:
    """Raises OSError for an address that is in use, or none of this machine's."""
    (family, kind, protocol, _, place), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Beside the others, and beside what the processes of a killed first process still hold.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(place)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


def _allow_connections() -> None:
    """Allows as many open files as the operator does: each connection is one, and 1,024 are soon there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard > soft:
        most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


async def _beat_on(beat: Callable[[], None]) -> None:
    while True:
        beat()
        await asyncio.sleep(BEAT_SECONDS)


async def _serve(gateway: Gateway, listeners: Sequence[socket.socket], beat: Callable[[], None]) -> None:
    runner = web.AppRunner(
        gateway.build_app(),
        access_log=None,
        auto_decompress=False,
        handler_cancellation=True,  # a client that leaves ends the work for it
        keepalive_timeout=IDLE_SECONDS,
        shutdown_timeout=0,  # what grows has had its time before
    )
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    await runner.setup()
    sites = [web.SockSite(runner, listener, backlog=BACKLOG) for listener in listeners]
    for site in sites:
        await site.start()
    beating = asyncio.create_task(_beat_on(beat))
    await asked.wait()
    for site in sites:  # from now on, connections go to another first process, where there is one
        await site.stop()
    await asyncio.sleep(LAST_SECONDS)
    await gateway.close(STOP_SECONDS)
    for number in (signal.SIGTERM, signal.SIGINT):
        # A second signal would kill the interpreter during its clean-up.
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
    await runner.cleanup()
    beating.cancel()
    await gateway.clients.close()
    gateway.database.close()


if __name__ == "__main__":
    sys.exit(main())
