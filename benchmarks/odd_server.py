"""An OpenAI-compatible server that answers wrongly, as its model's name says: `benchmarks.odd_backend` asks them all.

    python -m benchmarks.odd_server

Says its port, and serves until it is stopped. The models `echo` and `call` are for `benchmarks.patterns`: they answer
with what they were asked last, as words, and as the arguments of the first tool that was offered.
"""

from __future__ import annotations

import http.server
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

MEGABYTE = 1 << 20
USAGE = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
WORD = "word"
Pieces = Iterator[bytes]
SSE, JSON = "text/event-stream", "application/json"


def whole(**changes: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": WORD}, "finish_reason": "stop"}
    return json.dumps({"object": "chat.completion", "choices": [choice], "usage": USAGE} | changes).encode()


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def said(content: str, reason: str | None = None, **more: Any) -> dict[str, Any]:
    return {"index": 0, "delta": {"content": content}, "finish_reason": reason} | more


def events(*choices: Any, usage: Any = None) -> Pieces:
    """An event a choice, the count of the tokens, and the end."""
    for choice in choices:
        yield event(choices=[choice])
    yield event(choices=[], usage=USAGE if usage is None else usage)
    yield b"data: [DONE]\n\n"


def choice(**changes: Any) -> list[Any]:
    plain = {"index": 0, "message": {"role": "assistant", "content": WORD}, "finish_reason": "stop"}
    return [plain | changes]


def long_text(size: int, head: bytes, tail: bytes) -> Pieces:
    """JSON, or a line of a stream, whose text has `size` bytes."""
    yield head
    for _ in range(size // MEGABYTE):
        yield b"a" * MEGABYTE
    yield tail


def many_events(size: int) -> Pieces:
    piece = event(choices=[said("a" * 4096)])
    for _ in range(size // len(piece)):
        yield piece
    yield from events(said("", "stop"))


def for_ever(piece: bytes) -> Pieces:
    while True:
        yield piece
        time.sleep(0.05)


def silence() -> Pieces:
    time.sleep(3600)
    yield b""


HEAD, TAIL = (
    b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "',
    b'"}, "finish_reason": "stop"}]}',
)
LINE, LINE_END = (
    b'data: {"choices": [{"index": 0, "delta": {"content": "',
    b'"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n',
)
ODD: dict[str, tuple[Callable[[], Pieces], Callable[[], Pieces]]] = {
    "400 MB": (lambda: long_text(400 * MEGABYTE, HEAD, TAIL), lambda: many_events(400 * MEGABYTE)),
    "a line of 150 MB": (
        lambda: long_text(150 * MEGABYTE, b'"', b'"'),
        lambda: long_text(150 * MEGABYTE, LINE, LINE_END),
    ),
    "20 MB": (lambda: long_text(20 * MEGABYTE, HEAD, TAIL), lambda: many_events(20 * MEGABYTE)),
    "for ever": (lambda: for_ever(b" "), lambda: for_ever(event(choices=[said(WORD)]))),
    "10 MB of brackets": (
        lambda: iter([b"[" * 10 * MEGABYTE]),
        lambda: iter([b"data: " + b"[" * 10 * MEGABYTE + b"\n\n"]),
    ),
    "choices: x": (lambda: iter([whole(choices=["x"])]), lambda: events("x")),
    "choices: an object": (lambda: iter([whole(choices={"a": 1})]), lambda: iter([event(choices={"a": 1})])),
    "a message that is text": (
        lambda: iter([whole(choices=choice(message="x"))]),
        lambda: events(said("") | {"delta": "x"}),
    ),
    "usage as text": (lambda: iter([whole(usage="many")]), lambda: events(said(WORD, "stop"), usage="many")),
    "usage -1": (
        lambda: iter([whole(usage=dict.fromkeys(USAGE, -1))]),
        lambda: events(said(WORD, "stop"), usage=dict.fromkeys(USAGE, -1)),
    ),
    "usage 10^30": (
        lambda: iter([whole(usage=dict.fromkeys(USAGE, 10**30))]),
        lambda: events(said(WORD, "stop"), usage=dict.fromkeys(USAGE, 10**30)),
    ),
    "index 7": (lambda: iter([whole(choices=choice(index=7))]), lambda: events(said(WORD, "stop", index=7))),
    "index as text": (lambda: iter([whole(choices=choice(index="a"))]), lambda: events(said(WORD, "stop", index="a"))),
    "nothing": (lambda: iter([]), lambda: iter([])),
    "silence": (silence, silence),
    "a page": (lambda: iter([b"<html>Welcome</html>"]), lambda: iter([b"<html>Welcome</html>"])),
    "bytes": (lambda: iter([b"\xff\xfe\x00" * 100]), lambda: iter([b"data: \xff\xfe\x00\n\n"])),
}  # fmt: skip
"""What each model answers whole, and what as a stream."""
ANSWERED = ("usage as text", "usage -1", "usage 10^30", "index 7", "index as text")
"""Those that have the whole answer in them, whatever else is wrong."""


def model_of(name: str) -> str:
    """The model's name, which may not have every letter."""
    return "".join(letter if letter.isalnum() else "-" for letter in name)


RIGHT = "right"
BY_MODEL = {model_of(name): pieces for name, pieces in ODD.items()}
BY_MODEL[RIGHT] = (lambda: iter([whole()]), lambda: events(said(WORD, "stop")))


class Odd(http.server.BaseHTTPRequestHandler):
    """Answers without a length, to the end of the connection."""

    def do_GET(self) -> None:
        self._answer(JSON, iter([b'{"data": []}']))

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model, stream = request["model"], bool(request.get("stream"))
        if model in BY_MODEL:
            pieces = BY_MODEL[model][stream]()
        else:
            text = request["messages"][-1]["content"]
            message: dict[str, Any] = {"role": "assistant", "content": text}
            if model == "call" and request.get("tools"):
                function = {"name": request["tools"][0]["function"]["name"], "arguments": text}
                message = {
                    **message,
                    "content": None,
                    "tool_calls": [{"id": "c", "type": "function", "function": function}],
                }
            pieces = iter([whole(choices=choice(message=message))])
        self._answer(SSE if stream else JSON, pieces)

    def _answer(self, kind: str, pieces: Pieces) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for piece in pieces:
                self.wfile.write(piece)
        except OSError:
            return  # who asked has heard enough
        finally:
            self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


def main() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
