"""Connections of the web process: waitress receives a request whole, and keeps an answer until it has been read.

Our threads see complete requests only, and are free as soon as the answer is made. A client that sends or reads a byte
every few seconds costs a buffer, not a thread (docs/adr/0011). `Channel` adds the time limit that waitress lacks,
`settings.SLOW_CLIENT_SECONDS`.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import Any

import structlog
from django.conf import settings
from gunicorn.workers.base import Worker
from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.buffers import OverflowableBuffer
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

from project.web.chunked import ChunkedBody
from project.web.unread import Begun, choose_to_cut

LEAST_RATE = 1024
"""Bytes a second below which a client counts as slow."""
IDLE_SECONDS = 120
"""How long a connection is kept between two requests."""
ORPHANED_SECONDS = 300.0
"""How long a worker goes on without its first process; `up` starts another, and ends the worker once that serves."""
SETTLE_SECONDS = 1.0
"""Of gunicorn's graceful time: for the calls that are open when a worker has no more time for answers (`worker_exit` of
project/web/server.py)."""
LAST_SECONDS = 0.2
"""For the requests of connections that a worker has accepted just before it ends."""
ADJUSTMENTS: dict[str, Any] = {
    "ident": "",
    "recv_bytes": 1 << 16,
    "inbuf_overflow": 1 << 20,  # from here on a body, and an answer, waits in a temporary file
    "outbuf_overflow": 1 << 20,
    "outbuf_high_watermark": 1 << 28,  # a thread that is so much ahead of its reader waits
    "max_request_header_size": 1 << 16,  # of a body, Parser says how much
    "connection_limit": 800,  # of each worker, below the 1,024 files that a process may usually open
    "channel_timeout": IDLE_SECONDS,
    "cleanup_interval": 1,
    "clear_untrusted_proxy_headers": False,  # Django reads them where a proxy is trusted, and else ignores them
    "log_socket_errors": False,
    "asyncore_use_poll": True,
}
PROBE = "/livez"
REFUSED = "BODY_REFUSED"
"""The header by which Parser says why it did not take a body."""
AHEAD = 1 << 17
"""Bytes that the kernel takes ahead of a reader: what waits, waits here, where it is seen."""
RESET_ON_CLOSE = struct.pack("ii", 1, 0)

log = structlog.get_logger(__name__)


class Parser(HTTPRequestParser):  # type: ignore[misc]
    """Ends a request where its body cannot be taken: at its head, or where a chunked one grows too long.
    ContentLengthMiddleware then says why."""

    chunked: bool
    content_length: int
    body_rcv: Any
    path = ""  # of a head that cannot be read, whose refusal is a task like any other

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        self.headers.pop(REFUSED, None)
        if self.chunked:
            if "CONTENT_LENGTH" in self.headers:  # a proxy in front may go by the other of the two
                raise ParsingError("Both Content-Length and Transfer-Encoding")
            self.body_rcv = ChunkedBody(OverflowableBuffer(self.adj.inbuf_overflow), settings.LARGEST_BODY)
        elif self.content_length > settings.LARGEST_BODY or "TRANSFER_ENCODING" in self.headers:
            self._end()

    def received(self, data: bytes) -> int:
        consumed: int = super().received(data)
        if isinstance(self.body_rcv, ChunkedBody) and self.body_rcv.refusal:
            self.headers[REFUSED] = self.body_rcv.refusal
            self.body_rcv.getbuf().close()
            self._end()
        return consumed

    def _end(self) -> None:
        # What follows on this connection is the body: it must not be read as another request.
        self.headers["CONNECTION"] = "close"
        self.chunked, self.content_length, self.body_rcv, self.completed = False, 0, None, True


class Channel(HTTPChannel):  # type: ignore[misc]
    """A connection that is cut when its client moves less than LEAST_RATE over `settings.SLOW_CLIENT_SECONDS` while we
    wait for the rest of a request, or while an answer waits for it."""

    parser_class = Parser
    moved = 0
    waits_for: object = None
    since = 0.0

    def recv(self, buffer_size: int) -> bytes:
        data: bytes = super().recv(buffer_size)
        self.moved += len(data)
        return data

    def send(self, data: bytes, do_close: bool = True) -> int:
        sent: int = super().send(data, do_close=do_close)
        self.moved += sent
        return sent

    def look(self, now: float) -> None:
        """Called every second in the thread of the sockets; `now` in seconds of the monotonic clock."""
        waits_for = self._find_what_waits()
        if waits_for is not self.waits_for:
            self.waits_for, self.since, self.moved = waits_for, now, 0
        elif waits_for is not None and now - self.since >= settings.SLOW_CLIENT_SECONDS:
            if self.moved < LEAST_RATE * settings.SLOW_CLIENT_SECONDS:
                self.cut("cut off a slow client")
            self.since, self.moved = now, 0

    def _find_what_waits(self) -> object:
        """The request that is not whole yet, or the name of what else waits for the client; None where nothing does."""
        if self.total_outbufs_len:
            return "answer"
        if self.requests:
            return None  # ours to answer
        if self.request is None and self.last_activity == self.creation_time:
            return "first request"
        return self.request

    def find_begun(self) -> Begun | None:
        """The body that is not whole yet."""
        body = self.request.body_rcv if self.request is not None else None
        return Begun(self.addr[0], self.creation_time, len(body)) if body is not None else None

    def cut(self, event: str) -> None:
        log.info(event, address=self.addr[0], bytes=self.moved)
        # By a reset: in an ordinary close the kernel would go on offering what has not been read.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.handle_close()


class Server(TcpWSGIServer):  # type: ignore[misc]
    """`probes`: a thread of its own for PROBE, which is answered while all others wait."""

    channel_class = Channel
    probes: ThreadedTaskDispatcher

    def add_task(self, task: Channel) -> None:
        if task.requests[0].path == PROBE:
            self.probes.add_task(task)
        else:
            super().add_task(task)

    def accept_rest(self) -> None:
        """Accepts what waits in the listening socket's queue, which would be reset when it closes."""
        accepted = -1
        while accepted < len(self.active_channels) < self.adj.connection_limit:
            accepted = len(self.active_channels)
            self.handle_accept()

    def set_socket_options(self, conn: socket.socket) -> None:
        super().set_socket_options(conn)
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, AHEAD)

    def maintenance(self, now: float) -> None:
        super().maintenance(now)
        moment = time.monotonic()
        for channel in list(self.active_channels.values()):
            channel.look(moment)
        begun = {channel: body for channel in self.active_channels.values() if (body := channel.find_begun())}
        for channel in choose_to_cut(begun):
            channel.cut("cut off a body that waited for its rest")


class WaitressWorker(Worker):  # type: ignore[misc]
    """gunicorn's worker: one thread for all sockets, `threads` for the requests."""

    def run(self) -> None:
        threads = ThreadedTaskDispatcher()
        threads.set_thread_count(self.cfg.threads)
        self.probes = ThreadedTaskDispatcher()
        self.probes.set_thread_count(1)
        sockets: dict[int, Any] = {}
        servers = [self._listen(listener.sock, sockets, threads) for listener in self.sockets]
        orphaned = float("inf")
        while self.alive and time.monotonic() - orphaned < ORPHANED_SECONDS:
            self.notify()
            wasyncore.loop(timeout=0.5, use_poll=True, map=sockets, count=1)
            if os.getppid() != self.ppid:
                if not self._can_hand_over():
                    break
                orphaned = min(orphaned, time.monotonic())
        for server in servers:
            server.accept_rest()
            wasyncore.dispatcher.close(server)
        self._finish(servers, sockets)

    def _can_hand_over(self) -> bool:
        """Whether another first process can listen while this one still does."""
        return all(listener.sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) for listener in self.sockets)

    def _listen(self, listener: socket.socket, sockets: dict[int, Any], threads: ThreadedTaskDispatcher) -> Server:
        address = listener.getsockname()
        server = Server(
            self.wsgi,
            sockets,
            _sock=listener,
            dispatcher=threads,
            adj=Adjustments(sockets=[listener], threads=self.cfg.threads, **ADJUSTMENTS),
            sockinfo=(listener.family, listener.type, listener.proto, address),
            bind_socket=False,
        )
        server.probes = self.probes
        return server

    def _finish(self, servers: list[Server], sockets: dict[int, Any]) -> None:
        """Answer what has arrived, within gunicorn's graceful time."""
        began = time.monotonic()
        while time.monotonic() - began < self.cfg.graceful_timeout - SETTLE_SECONDS and (
            time.monotonic() - began < LAST_SECONDS
            or any(
                channel.requests or channel.total_outbufs_len
                for server in servers
                for channel in server.active_channels.values()
            )
        ):
            self.notify()
            wasyncore.loop(timeout=0.05, use_poll=True, map=sockets, count=1)
