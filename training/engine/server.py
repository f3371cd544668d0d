"""The model server: `python -m training.engine.server --artifacts ROOT`, one process, stopped by SIGTERM.

Starlette's routes run on granian inside this process, so there is no child to leave behind. The event loop takes
requests; one thread owns every model. The web processes' model backends are its clients.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from training.engine.machine.launch import LIBRARIES

# Weights come from the store. Set before the libraries are imported: a server never asks a hub for anything.
os.environ.update({"HF_HUB_OFFLINE": "1", **LIBRARIES, **os.environ})

from granian.constants import Interfaces
from granian.server.embed import Server

from models_registry.store.errors import BadAddress
from models_registry.store.opening import is_remote, open_store
from training.engine.machine.hardware import choose_device, set_threads
from training.engine.serving.artifacts import ArtifactStore
from training.engine.serving.pool import ModelPool
from training.engine.serving.routes import build_app
from training.engine.serving.worker import ModelThread

TOKEN_VARIABLE = "RECKONER_MODEL_SERVER_TOKEN"  # noqa: S105 - the variable's name

log = logging.getLogger("training.engine.server")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until SIGTERM or SIGINT, then returns 0; 1 when the model thread died, 2 for bad arguments."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if not is_remote(options.artifacts) and not Path(options.artifacts).is_dir():
        sys.stderr.write(f"--artifacts: {options.artifacts} is not a folder\n")
        return 2
    if is_remote(options.artifacts) and options.cache is None:
        sys.stderr.write(f"--cache: {options.artifacts} needs a folder for copies of its files\n")
        return 2
    device = choose_device()
    threads = set_threads(options.threads)
    try:
        opened = open_store(options.artifacts, cache=options.cache, cache_bytes=options.cache_bytes)
    except BadAddress as error:
        sys.stderr.write(f"--artifacts: {error}\n")
        return 2
    store = ArtifactStore(opened)
    models = ModelThread(ModelPool(store, device, max_bases=options.max_loaded, max_adapters=options.max_adapters))
    models.start()
    app = build_app(store, models, os.environ.get(TOKEN_VARIABLE))
    log.info("serving on %s:%d, device %s, %d threads", options.host, options.port, device, threads)
    server = Server(
        app,
        address=options.host,
        port=options.port,
        interface=Interfaces.ASGINL,  # nothing in the app wants lifespan events
        websockets=False,
        backpressure=2048,
        log_enabled=False,
    )
    asked_to_stop = asyncio.run(_serve(server, models))
    log.info("stopped")
    return 0 if asked_to_stop else 1


async def _serve(server: Server, models: ModelThread) -> bool:
    """True when it ended because it was asked to."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    serving = asyncio.create_task(server.serve())
    while not (asked.is_set() or serving.done()) and models.is_alive():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asked.wait(), timeout=1.0)
    # The thread first: it answers what waits, so that no connection holds the server open.
    await asyncio.to_thread(models.stop)
    for number in (signal.SIGTERM, signal.SIGINT):
        # A second signal would kill the interpreter during its clean-up.
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
    server.stop()  # type: ignore[no-untyped-call]
    await serving
    return asked.is_set()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.engine.server",
        description="Scores options and answers chats with the models of the artifact store.",
        epilog=f"Where {TOKEN_VARIABLE} is set, requests must carry it as a bearer token.",
    )
    parser.add_argument("--host", type=_address, default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=_port, default=8100, help="port to listen on (default 8100)")
    parser.add_argument("--artifacts", required=True, help="root of the content-addressed store, or its s3:// address")
    parser.add_argument("--cache", type=Path, default=None, help="folder for copies of artifacts from s3://")
    parser.add_argument(
        "--cache-bytes", type=_positive, default=20 << 30, help="largest size of that folder (default 20 GiB)"
    )
    parser.add_argument("--max-loaded", type=_positive, default=4, help="base models kept in memory (default 4)")
    parser.add_argument("--max-adapters", type=_positive, default=16, help="adapters kept for each base (default 16)")
    parser.add_argument("--threads", type=_positive, default=None, help="CPU threads for tensors (default: every core)")
    return parser


def _address(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text[:100]!r} is not an IP address, such as 127.0.0.1") from error
    return text


def _port(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 65_535:
        raise argparse.ArgumentTypeError("must be 1 to 65535")
    return number


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    status = main()
    # Threads of granian's runtime may still run when the interpreter is torn down, which aborts the process now and
    # then. Everything is closed and written by here, so exit without the teardown.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
