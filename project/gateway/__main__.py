"""The gateway's process: `python -m project.gateway`, stopped by SIGTERM.

Starlette's routes run on granian inside this process, as the model server's do.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from granian.constants import Interfaces
from granian.server.embed import Server

if TYPE_CHECKING:
    from project.gateway.app import Gateway

STOP_SECONDS = 5.0
"""How long answers that grow may go on after SIGTERM."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until SIGTERM or SIGINT, then returns 0."""
    parser = argparse.ArgumentParser(prog="python -m project.gateway", description="Answers OpenAI's clients.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8020, help="port to listen on (default 8020)")
    options = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    from project.gateway.app import Gateway

    gateway = Gateway()
    server = Server(
        gateway.build_app(),
        address=options.host,
        port=options.port,
        interface=Interfaces.ASGINL,  # nothing in the app wants lifespan events
        websockets=False,
        backpressure=2048,
        log_enabled=False,
    )
    gc.collect()
    gc.freeze()  # as project/wsgi.py
    gc.set_threshold(10_000, 20, 20)
    asyncio.run(_serve(server, gateway))
    return 0


async def _serve(server: Server, gateway: Gateway) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    serving = asyncio.create_task(server.serve())
    waiting = asyncio.create_task(asked.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    await gateway.close(STOP_SECONDS)
    for number in (signal.SIGTERM, signal.SIGINT):
        # A second signal would kill the interpreter during its clean-up.
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
    waiting.cancel()
    server.stop()  # type: ignore[no-untyped-call]
    await serving
    await gateway.clients.close()
    gateway.database.close()


if __name__ == "__main__":
    sys.exit(main())
