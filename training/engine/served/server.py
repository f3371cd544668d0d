"""The policy's HTTP face: an OpenAI-compatible `/v1` on the loopback interface, on a free port.

    GET  /v1/models
    POST /v1/chat/completions      also as a stream, which comes when the whole answer is there

The key tells the episode, and holds as long as it does. Beside OpenAI's fields, an answer's `reckoner.digest` is the
hash of the weights that wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any, ClassVar

import msgspec

from training.engine.environments.local_http import BodyTooLarge, LocalHandler, serving
from training.engine.served.policy import Policy
from training.engine.serving.chat import Begun, ChatAnswer, ChatRequest, Piece
from training.engine.serving.chat_requests import READ_CHAT, chat_request_of
from training.engine.serving.completions import Completion
from training.engine.serving.faults import Fault
from training.engine.serving.requests import parse

CHAT, MODELS = "/v1/chat/completions", "/v1/models"


class PolicyServer(ThreadingHTTPServer):
    """`weights_hash` is that of the weights which answer now."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, policy: Policy) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.policy, self.weights_hash = policy, ""

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


@contextmanager
def serve_policy(policy: Policy) -> Iterator[PolicyServer]:
    """Serves until the block is left. Calls wait until the policy answers."""
    server = PolicyServer(policy)
    with serving(server):
        yield server


class _Handler(LocalHandler):
    server: PolicyServer
    timeout: ClassVar[float] = 60.0
    most_bytes: ClassVar[int] = 8 << 20

    def get(self) -> None:
        try:
            self._find_session()
            if self.path != MODELS:
                raise _unknown(self)
            model = {"id": "policy", "object": "model", "created": 0, "owned_by": "reckoner"}
            self.answer(200, {"object": "list", "data": [model]})
        except Fault as fault:
            self.answer(fault.status, {"error": fault.as_body()})

    def post(self) -> None:
        try:
            raw = self._read()
            session = self._find_session()
            if self.path != CHAT:
                raise _unknown(self)
            body = parse(raw, READ_CHAT)
            request = chat_request_of(body)
            answer = self.server.policy.submit(session, request).result()
        except Fault as fault:
            self.answer(fault.status, {"error": fault.as_body()})
            return
        completion = Completion(request)
        told = {"reckoner": {"model": request.model, "digest": self.server.weights_hash}}
        if not body.stream:
            self.answer(200, completion.whole(answer) | told)
            return
        with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
        events = [*_chunks(request, completion, answer, with_usage=with_usage), None]
        lines = [b"data: " + (b"[DONE]" if one is None else msgspec.json.encode(one)) + b"\n\n" for one in events]
        self.send(200, b"".join(lines), "text/event-stream")

    def _read(self) -> bytes:
        try:
            return self.read_body()
        except BodyTooLarge as error:
            raise Fault("request_too_large", str(error)) from error

    def _find_session(self) -> Any:
        scheme, _, key = (self.headers.get("Authorization") or "").partition(" ")
        return self.server.policy.find_session(key.strip() if scheme.lower() == "bearer" else "")


def _chunks(
    request: ChatRequest, completion: Completion, answer: ChatAnswer, *, with_usage: bool
) -> Iterator[dict[str, Any]]:
    (written,) = answer.written
    yield from completion.begin(Begun(answer.prompt_tokens), with_usage=with_usage)
    piece = Piece(0, written.text, written.logprobs or [], written)
    yield from completion.grow(piece, with_usage=with_usage)
    if with_usage:
        yield completion.usage(answer)


def _unknown(handler: LocalHandler) -> Fault:
    return Fault("not_found", f"{handler.command} {handler.path[:200]} is not served here")
