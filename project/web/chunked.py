"""Chunked bodies, as Node's exporters of spans and other streaming clients send them, bounded in bytes and chunks.

waitress's own receiver copies what it has read with every chunk: a body of one byte a chunk costs it seconds of CPU for
each megabyte. This one looks at each byte once, and ends a body that has too many chunks.
"""

from __future__ import annotations

import re
from typing import Any

from waitress.buffers import OverflowableBuffer
from waitress.utilities import BadRequest

SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}")
LONGEST_LINE = 1024
"""Bytes of a chunk's head with its extensions, which are ignored, and of a trailer."""
MANY_CHUNKS = 1024
LEAST_OF_A_CHUNK = 64
"""Bytes that a chunk has on average at least, where a body has many: clients that stream send thousands in each."""
MOST_TRAILERS = 16


class ChunkedBody:
    """A `body_rcv` of waitress. `refusal` says why the body is not taken, once that is known."""

    def __init__(self, buffer: OverflowableBuffer, most: int) -> None:
        self._buffer, self._most = buffer, most
        self._line = bytearray()
        self._left = 0
        """Bytes of the present chunk that are still to come."""
        self._after_chunk = self._in_trailers = False
        self._chunks = self._trailers = 0
        self.completed = False
        self.error: BadRequest | None = None
        self.refusal = ""

    def __len__(self) -> int:
        return len(self._buffer)

    def getbuf(self) -> OverflowableBuffer:
        return self._buffer

    def getfile(self) -> Any:
        return self._buffer.getfile()

    def received(self, data: bytes) -> int:
        """Returns how many bytes belong to this body: fewer than all where the next request follows."""
        at = 0
        while at < len(data) and not (self.completed or self.error or self.refusal):
            at = self._take_content(data, at) if self._left else self._take_line(data, at)
        return at

    def _take_content(self, data: bytes, at: int) -> int:
        piece = data[at : at + self._left]
        self._buffer.append(piece)
        self._left -= len(piece)
        self._after_chunk = not self._left
        return at + len(piece)

    def _take_line(self, data: bytes, at: int) -> int:
        end = data.find(b"\n", at, at + LONGEST_LINE + 2)
        stop = end + 1 if end >= 0 else min(len(data), at + LONGEST_LINE + 2)
        self._line += data[at:stop]
        if end >= 0 and self._line.endswith(b"\r\n"):
            line, self._line = bytes(self._line[:-2]), bytearray()
            self._read_line(line)
        elif end >= 0 or len(self._line) > LONGEST_LINE:
            self.error = BadRequest("Chunk not properly terminated")
        return stop

    def _read_line(self, line: bytes) -> None:
        if self._after_chunk:  # the line break behind a chunk's content
            self._after_chunk = False
            if line:
                self.error = BadRequest("Chunk not properly terminated")
        elif self._in_trailers:
            self._trailers += 1
            self.completed = not line
            if self._trailers > MOST_TRAILERS:
                self.error = BadRequest("Too many trailers")
        else:
            self._begin_chunk(line.partition(b";")[0].rstrip(b" \t"))

    def _begin_chunk(self, size: bytes) -> None:
        if not SIZE.fullmatch(size):
            self.error = BadRequest("Invalid chunk size")
            return
        self._left = int(size, 16)
        self._in_trailers = self._left == 0
        self._chunks += 1
        if len(self) + self._left > self._most:
            self.refusal = f"The body has more than {self._most} bytes."
        elif self._chunks > max(MANY_CHUNKS, len(self) // LEAST_OF_A_CHUNK):
            self.refusal = (
                f"The body comes in chunks of fewer than {LEAST_OF_A_CHUNK} bytes on average. Send larger ones."
            )
