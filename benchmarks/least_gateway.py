"""The least that a recording gateway on our libraries does, for benchmarks.serving to measure beside ours.

    python -m benchmarks.least_gateway --port N --backend URL --database URL

The same server (granian), client (aiohttp) and driver (psycopg, prepared, in threads) as the gateway's, and nothing
else: a row is committed before the backend is asked and changed after its answer. No key is checked, nothing is routed
or validated, and nothing but these rows is kept. What ours takes beyond it is ours to save; what this takes is not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
import psycopg
from granian.constants import Interfaces
from granian.server.embed import Server

THREADS = 8
MAKE = "CREATE TABLE IF NOT EXISTS least_call (id uuid PRIMARY KEY, asked jsonb NOT NULL, answered jsonb)"
OPEN = "INSERT INTO least_call (id, asked) VALUES (%s, %s)"
CLOSE = "UPDATE least_call SET answered = %s WHERE id = %s"

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class LeastGateway:
    """An ASGI application. Whole answers and streams are given on as they come."""

    def __init__(self, backend: str, database: str) -> None:
        self._backend, self._database = backend, database
        self._threads, self._local = ThreadPoolExecutor(THREADS), threading.local()
        self._client: aiohttp.ClientSession | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if self._client is None:
            self._client = aiohttp.ClientSession()
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        row, text = uuid.uuid4(), json.dumps(json.loads(body))
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, self._commit, OPEN, (row, text))
        pieces = []
        headers = {"Content-Type": "application/json"}
        async with self._client.post(f"{self._backend}{scope['path']}", data=body, headers=headers) as answer:
            kind = answer.headers.get("Content-Type", "application/json").encode()
            await send({"type": "http.response.start", "status": answer.status, "headers": [(b"content-type", kind)]})
            async for piece in answer.content.iter_any():
                pieces.append(piece)
                if kind != b"application/json":
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        whole = b"".join(pieces)
        await loop.run_in_executor(self._threads, self._commit, CLOSE, (json.dumps(whole.decode()), row))
        streamed = kind != b"application/json"
        await send({"type": "http.response.body", "body": b"" if streamed else whole, "more_body": False})

    def _commit(self, statement: str, values: tuple[object, ...]) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = psycopg.connect(self._database, autocommit=True, prepare_threshold=0)
        connection.execute(statement, values)


async def _serve(port: int, app: LeastGateway) -> None:
    server = Server(app, port=port, interface=Interfaces.ASGINL, websockets=False, log_enabled=False)
    await server.serve()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--backend", required=True, help="its origin, such as http://127.0.0.1:9000")
    parser.add_argument("--database", required=True, help="URL of a PostgreSQL database; a table is made in it")
    options = parser.parse_args()
    with psycopg.connect(options.database, autocommit=True) as connection:
        connection.execute(MAKE)
    asyncio.run(_serve(options.port, LeastGateway(options.backend, options.database)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
