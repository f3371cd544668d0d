"""A chat whose answer is sent while it grows, as server-sent events, and callers who leave before they have it.

What is wrong with a request is known before the first event, and becomes a plain refusal; a fault after that is an
event with `error`, and no `[DONE]` follows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import StreamingResponse

from training.engine.serving.chat import Begun, ChatAnswer, ChatRequest, Piece
from training.engine.serving.completions import Completion
from training.engine.serving.conversations import ChatJob
from training.engine.serving.faults import Fault
from training.engine.serving.jobs import INTERNAL
from training.engine.serving.worker import ModelThread

DONE = b"data: [DONE]\n\n"
HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


class Mailbox:
    """Carries what the model thread tells of one chat into the event loop. Ends with the answer or a Fault."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._letters: asyncio.Queue[Begun | Piece | ChatAnswer | Fault] = asyncio.Queue()

    def put(self, letter: Begun | Piece | ChatAnswer | Fault) -> None:
        """From any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has been closed: nobody listens any more
            self._loop.call_soon_threadsafe(self._letters.put_nowait, letter)

    def close(self, job: ChatJob) -> None:
        """From the model thread, when the job's future is done."""
        if job.future.cancelled():
            return
        error = job.future.exception()
        self.put(job.future.result() if error is None else error if isinstance(error, Fault) else INTERNAL)

    async def take(self) -> Begun | Piece | ChatAnswer:
        """The next letter. Raises the Fault that ended the chat."""
        letter = await self._letters.get()
        if isinstance(letter, Fault):
            raise letter
        return letter


async def stream_chat(models: ModelThread, asked: ChatRequest, *, with_usage: bool) -> StreamingResponse:
    """Answers once the chat has begun. Raises Fault where it does not."""
    mailbox = Mailbox()
    job = models.submit_chat(asked, mailbox.put)
    job.future.add_done_callback(lambda _: mailbox.close(job))
    try:
        begun = await mailbox.take()
    except asyncio.CancelledError:
        job.leave()
        raise
    assert isinstance(begun, Begun)
    events = _events(mailbox, job, Completion(asked), begun, with_usage=with_usage)
    return StreamingResponse(events, headers=HEADERS, media_type="text/event-stream")


async def _events(
    mailbox: Mailbox, job: ChatJob, completion: Completion, begun: Begun, *, with_usage: bool
) -> AsyncIterator[bytes]:
    try:
        for chunk in completion.begin(begun, with_usage=with_usage):
            yield _event(chunk)
        while not isinstance(letter := await mailbox.take(), ChatAnswer):
            if isinstance(letter, Piece):
                for chunk in completion.grow(letter, with_usage=with_usage):
                    yield _event(chunk)
        if with_usage:
            yield _event(completion.usage(letter))
        yield DONE
    except Fault as fault:
        yield _event({"error": fault.as_body()})
    finally:
        job.leave()  # without effect on an answer that is complete


def _event(body: Any) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


async def answer_or_leave(request: Request, job: ChatJob) -> ChatAnswer:
    """The whole answer; a caller who leaves before gives up the job. The request's body has been read."""
    answering: asyncio.Future[ChatAnswer] = asyncio.wrap_future(job.future)
    leaving = asyncio.ensure_future(_until_gone(request.receive))
    both: set[asyncio.Future[Any]] = {answering, leaving}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise Fault("invalid_request", "the caller has left")
        return answering.result()
    finally:
        for task in both:
            task.cancel()
        if not job.future.done():
            job.leave()


async def _until_gone(receive: Callable[[], Any]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
