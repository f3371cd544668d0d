"""The least that a recording gateway on our libraries does, for benchmarks.serving to measure beside ours.

    python -m benchmarks.least_gateway --port N --backend URL --database URL

The same server and client (aiohttp) and driver (psycopg, prepared, in threads) as the gateway's, and nothing else: a
row is committed before the backend is asked and changed after its answer. No key is checked, nothing is routed or
validated, and nothing but these rows is kept. What ours takes beyond it is ours to save; what this takes is not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import psycopg
from aiohttp import web

THREADS = 8
MAKE = "CREATE TABLE IF NOT EXISTS least_call (id uuid PRIMARY KEY, asked jsonb NOT NULL, answered jsonb)"
OPEN = "INSERT INTO least_call (id, asked) VALUES (%s, %s)"
CLOSE = "UPDATE least_call SET answered = %s WHERE id = %s"


class LeastGateway:
    """Whole answers and streams are given on as they come."""

    def __init__(self, backend: str, database: str) -> None:
        self._backend, self._database = backend, database
        self._threads, self._local = ThreadPoolExecutor(THREADS), threading.local()
        self._client: aiohttp.ClientSession | None = None

    async def chat(self, request: web.Request) -> web.StreamResponse:
        if self._client is None:
            self._client = aiohttp.ClientSession()
        body = await request.read()
        row, text = uuid.uuid4(), json.dumps(json.loads(body))
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, self._commit, OPEN, (row, text))
        pieces = []
        stream: web.StreamResponse | None = None
        headers = {"Content-Type": "application/json"}
        async with self._client.post(f"{self._backend}{request.path}", data=body, headers=headers) as answer:
            kind = answer.headers.get("Content-Type", "application/json")
            if kind != "application/json":
                stream = web.StreamResponse(headers={"Content-Type": kind})
                await stream.prepare(request)
            async for piece in answer.content.iter_any():
                pieces.append(piece)
                if stream is not None:
                    await stream.write(piece)
        whole = b"".join(pieces)
        await loop.run_in_executor(self._threads, self._commit, CLOSE, (json.dumps(whole.decode()), row))
        if stream is not None:
            await stream.write_eof()
            return stream
        return web.Response(body=whole, content_type="application/json")

    def _commit(self, statement: str, values: tuple[object, ...]) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = psycopg.connect(self._database, autocommit=True, prepare_threshold=0)
        connection.execute(statement, values)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--backend", required=True, help="its origin, such as http://127.0.0.1:9000")
    parser.add_argument("--database", required=True, help="URL of a PostgreSQL database; a table is made in it")
    options = parser.parse_args()
    with psycopg.connect(options.database, autocommit=True) as connection:
        connection.execute(MAKE)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", LeastGateway(options.backend, options.database).chat)
    web.run_app(app, host="127.0.0.1", port=options.port, access_log=None, print=None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
