"""Asks servers for chat completions, whole or streamed, and the next one where one fails before its first byte.

The gateway of chats calls it, in its event loop. All servers speak OpenAI's protocol here, our own model server too.
Where another can stand in, one that does not answer within `settings.FALLBACK_SECONDS` has to show that it lives: a
long answer is waited for, a stopped server is not.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import aiohttp
import msgspec
from django.conf import settings

from models_registry.backends.answers import ChunkReader, MalformedAnswer, decode, read_completion
from models_registry.backends.asking import breaker_of
from models_registry.backends.endpoint import Endpoint
from models_registry.backends.openai import PAUSE_SECONDS, said_in, unavailable_by
from models_registry.backends.outbound import MOST_BYTES, MOST_LINE, async_session, async_timeout, headers_of, too_long
from models_registry.backends.parameters import adapt, learn
from models_registry.backends.places import Place
from models_registry.errors import BackendBusy, BackendTooSlow, BackendUnavailable, ChatRefused
from models_registry.models import BackendKind, ModelVersion

T = TypeVar("T")
LIVING_SECONDS = 0.5
"""How long a silent server may take to show that it lives."""
REFUSALS = frozenset({400, 413, 422})
"""What was asked is wrong, and another server would say so too."""
NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""What is raised before a byte was sent."""
DONE = b"[DONE]"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A version at one of its places. `fields` of the body are this attempt's own."""

    version: ModelVersion
    place: Place
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answered:
    """A whole chat completion, and who gave it; `failures` says why those that stood before did not."""

    attempt: Attempt
    answer: dict[str, Any]
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Streamed:
    """A completion whose first chunk is there. `chunks` begins with that one, gives together what came together, and
    raises BackendUnavailable where the server breaks off. `response` is None where no server writes it."""

    attempt: Attempt
    chunks: AsyncIterator[list[dict[str, Any]]]
    response: aiohttp.ClientResponse | None
    failures: tuple[str, ...] = ()

    async def close(self) -> None:
        """Whoever stops reading calls it: the server then stops writing."""
        if self.response is not None:
            self.response.close()


@dataclass(frozen=True, slots=True)
class LostAnswer:
    """A server had a chat for so many seconds, and then did not answer, or with something else: it may count it."""

    attempt: Attempt
    seconds: float


@dataclass(slots=True)
class Waiting:
    """The server that a chat waits for, and since which second of the monotonic clock it has the request; None while no
    server has it that may still answer. `lost`: those that had it before."""

    attempt: Attempt | None = None
    since: float = 0.0
    lost: list[LostAnswer] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.since

    def begin(self, attempt: Attempt) -> None:
        self.attempt, self.since = attempt, time.monotonic()

    def refuse(self) -> None:
        """The server answers with a status that is an error, and does no work."""
        self.attempt = None

    def lose(self) -> None:
        """No answer of the server is waited for any longer."""
        if self.attempt is not None:
            self.lost.append(LostAnswer(self.attempt, self.seconds))
        self.attempt = None


@dataclass(slots=True)
class ChatClients:
    """The connections of one event loop."""

    _sessions: dict[bool, aiohttp.ClientSession] = field(default_factory=dict)

    def of(self, endpoint: Endpoint) -> aiohttp.ClientSession:
        own = endpoint.backend is None
        if (found := self._sessions.get(own)) is None:
            found = self._sessions[own] = async_session(own=own)
        return found

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def ask_whole(
        self, attempts: Sequence[Attempt], body: Mapping[str, Any], waiting: Waiting | None = None
    ) -> Answered:
        """`body`: OpenAI's, without the model. `waiting` says at every moment who is asked. Raises ChatRefused, and
        BackendUnavailable where nobody answers."""
        waiting = waiting or Waiting()

        async def ask(attempt: Attempt) -> Answered:
            return Answered(attempt, await self._ask_whole(attempt, body, waiting))

        answered, failures = await _first_that_answers(self, attempts, ask, waiting)
        return replace(answered, failures=failures)

    async def ask_stream(
        self, attempts: Sequence[Attempt], body: Mapping[str, Any], waiting: Waiting | None = None
    ) -> Streamed:
        """As `ask_whole`. Returns when the first chunk is there: until then another server can answer."""
        waiting = waiting or Waiting()

        async def ask(attempt: Attempt) -> Streamed:
            return await self._begin_stream(attempt, body, waiting)

        streamed, failures = await _first_that_answers(self, attempts, ask, waiting)
        return replace(streamed, failures=failures)

    async def lives(self, endpoint: Endpoint) -> bool:
        """Whether it answers anything at all, at once."""
        path = "/readyz" if endpoint.kind == BackendKind.MODEL_SERVER else "/models"
        asking = self.of(endpoint).get(
            endpoint.url + path,
            headers=headers_of(endpoint),
            timeout=async_timeout(endpoint, LIVING_SECONDS),
            allow_redirects=False,
        )
        try:
            async with asyncio.timeout(LIVING_SECONDS), asking:
                return True
        except (aiohttp.ClientError, OSError, BackendUnavailable):
            return False

    async def _ask_whole(self, attempt: Attempt, body: Mapping[str, Any], waiting: Waiting) -> dict[str, Any]:
        endpoint = attempt.place.endpoint
        response = await self._send(attempt, {**body, "stream": False}, waiting)
        async with response:
            answer = await _json_of(endpoint, response)
        try:
            return read_completion(answer)
        except MalformedAnswer as error:
            raise BackendUnavailable(f"{endpoint.name} answered {error}.") from error

    async def _begin_stream(self, attempt: Attempt, body: Mapping[str, Any], waiting: Waiting) -> Streamed:
        asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
        response = await self._send(attempt, asked, waiting)
        chunks = _read_chunks(attempt.place.endpoint, response)
        try:
            first = await anext(chunks)
        except StopAsyncIteration:
            raise BackendUnavailable(f"{attempt.place.endpoint.name} answered without a message.") from None
        except BaseException:
            response.close()
            raise
        return Streamed(attempt, _with_first(first, chunks), response)

    async def _send(self, attempt: Attempt, body: Mapping[str, Any], waiting: Waiting) -> aiohttp.ClientResponse:
        """A response of status 2xx, whose body has not been read. Raises BackendUnavailable, ChatRefused."""
        endpoint = attempt.place.endpoint
        path = "/v1/chat/completions" if endpoint.kind == BackendKind.MODEL_SERVER else "/chat/completions"
        model = attempt.place.model
        while True:
            sent = adapt(endpoint, model, {**body, **attempt.fields, "model": model})
            try:
                response = await self._post(endpoint, path, sent, lambda: waiting.begin(attempt))
            except (aiohttp.ClientError, OSError) as error:
                raise _unavailable(endpoint, error) from error
            if 200 <= response.status < 300:
                return response
            waiting.refuse()
            async with response:
                refusal = _refusal(endpoint, response, await _json_of(endpoint, response))
            if not (isinstance(refusal, ChatRefused) and learn(endpoint, model, sent, refusal.message, refusal.param)):
                raise refusal

    async def _post(
        self, endpoint: Endpoint, path: str, body: Mapping[str, Any], sent: Callable[[], None]
    ) -> aiohttp.ClientResponse:
        """A connection that was not made is tried again, `endpoint.retries` times: nothing was asked yet. `sent` is
        called when there is one. Raises aiohttp.ClientError, OSError, BackendUnavailable."""
        tries = endpoint.retries
        while True:
            try:
                return await self.of(endpoint).post(
                    endpoint.url + path,
                    data=msgspec.json.encode(body),
                    headers=headers_of(endpoint) | {"Content-Type": "application/json"},
                    timeout=async_timeout(endpoint, endpoint.timeout_seconds),
                    allow_redirects=False,
                    trace_request_ctx=sent,
                )
            except NOT_CONNECTED:
                if tries == 0:
                    raise
            tries -= 1
            await asyncio.sleep(PAUSE_SECONDS)


async def _first_that_answers(
    clients: ChatClients,
    attempts: Sequence[Attempt],
    ask: Callable[[Attempt], Coroutine[Any, Any, T]],
    waiting: Waiting,
) -> tuple[T, tuple[str, ...]]:
    """What the first attempt gives that succeeds, and why those before did not. The last one gets all its time."""
    failures: list[str] = []
    busy: list[BackendBusy] = []
    asked: uuid.UUID | None = None
    for index, attempt in enumerate(attempts):
        endpoint = attempt.place.endpoint
        rest = {later.place.endpoint for later in attempts[index + 1 :]}
        last = not rest - {endpoint}
        breaker = breaker_of(endpoint)
        if not last and not breaker.allows(time.monotonic()):
            failures.append(f"{endpoint.name} is not asked: it failed a moment ago.")
            continue
        asked = endpoint.backend
        try:
            asking = ask(attempt)
            answered = await (asking if last else _unless_silent(clients, endpoint, asking))
        except BackendUnavailable as error:
            waiting.lose()
            breaker.failed(time.monotonic(), at_once=isinstance(error, BackendTooSlow))
            failures.append(error.message)
            busy += [error] if isinstance(error, BackendBusy) else []
        except ChatRefused as refused:
            breaker.succeeded()
            refused.backend = asked
            raise
        else:
            breaker.succeeded()
            return answered, tuple(failures)
    nobody = (BackendBusy if busy else BackendUnavailable)(" ".join(failures) or "This model is deployed nowhere.")
    nobody.backend = asked
    if isinstance(nobody, BackendBusy):  # the client has to wait for the first of them that may answer
        nobody.wait = min(error.wait for error in busy)
    raise nobody


async def _unless_silent(clients: ChatClients, endpoint: Endpoint, asking: Coroutine[Any, Any, T]) -> T:
    """Raises BackendTooSlow for a server that neither answers nor shows that it lives."""
    task = asyncio.ensure_future(asking)
    try:
        done, _ = await asyncio.wait({task}, timeout=settings.FALLBACK_SECONDS)
        if not done and not await clients.lives(endpoint):
            raise BackendTooSlow(f"{endpoint.name} did not answer within {settings.FALLBACK_SECONDS:g} s.")
        return await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


async def _with_first(first: T, rest: AsyncIterator[T]) -> AsyncIterator[T]:
    yield first
    async for one in rest:
        yield one


async def _read_chunks(endpoint: Endpoint, response: aiohttp.ClientResponse) -> AsyncIterator[list[dict[str, Any]]]:
    """Up to [DONE], those of one read together. A stream that ends without it was broken off, unless it gave a reason
    for its end: some servers send no [DONE]."""
    begun, reader, received = bytearray(), ChunkReader(), 0
    ends = time.monotonic() + settings.LONGEST_ANSWER_SECONDS
    try:
        async for piece in response.content.iter_any():
            received += len(piece)
            if received > MOST_BYTES:
                raise too_long(endpoint)
            if len(begun) > MOST_LINE:
                raise BackendUnavailable(f"{endpoint.name} sent a line of more than {MOST_LINE // 1024**2} MiB.")
            if time.monotonic() > ends:
                raise BackendTooSlow(f"{endpoint.name} was not done after {settings.LONGEST_ANSWER_SECONDS:g} s.")
            begun += piece
            if b"\n" not in piece:
                continue
            *lines, rest = bytes(begun).split(b"\n")
            begun = bytearray(rest)
            texts = _data_of(lines)
            done = DONE in texts
            if chunks := [_chunk_of(endpoint, reader, text) for text in texts[: texts.index(DONE) if done else None]]:
                yield chunks
            if done:
                return
        if chunks := [_chunk_of(endpoint, reader, text) for text in _data_of([bytes(begun)]) if text != DONE]:
            yield chunks
    except (aiohttp.ClientError, OSError) as error:
        raise _unavailable(endpoint, error) from error
    finally:
        response.release()  # closes the connection where the answer is not at its end
    if not reader.finished:
        raise BackendUnavailable(f"{endpoint.name} broke off its answer.")


def _data_of(lines: Sequence[bytes]) -> list[bytes]:
    """Other lines are comments, which keep a connection open, and names of events."""
    return [line[5:].strip() for line in lines if line.startswith(b"data:")]


def _chunk_of(endpoint: Endpoint, reader: ChunkReader, text: bytes) -> dict[str, Any]:
    try:
        chunk = decode(text)
        if isinstance(chunk, dict) and chunk.get("error"):
            raise BackendUnavailable(f"{endpoint.name} failed: {said_in(chunk)[:300]}")
        return reader.read(chunk)
    except MalformedAnswer as error:
        raise BackendUnavailable(f"{endpoint.name} sent {error}.") from error


def _unavailable(endpoint: Endpoint, error: Exception) -> BackendUnavailable:
    if isinstance(error, aiohttp.SocketTimeoutError):
        return BackendTooSlow(f"{endpoint.name} did not answer within {endpoint.timeout_seconds:g} s.")
    return BackendUnavailable(f"{endpoint.name} does not answer: {type(error).__name__}.")


def _refusal(endpoint: Endpoint, response: aiohttp.ClientResponse, answer: Any) -> BackendUnavailable | ChatRefused:
    said = said_in(answer)[:300]
    if response.status not in REFUSALS:
        return unavailable_by(endpoint, response.status, said, response.headers)
    told = answer.get("error") if isinstance(answer, dict) else None
    named = {key: value for key, value in told.items() if isinstance(value, str)} if isinstance(told, dict) else {}
    return ChatRefused(said or f"{endpoint.name} refused it.", param=named.get("param"), reason=named.get("code"))


async def _json_of(endpoint: Endpoint, response: aiohttp.ClientResponse) -> Any:
    """None where the body is no JSON. Raises BackendUnavailable where it does not come, or is too long."""
    content = bytearray()
    try:
        async with asyncio.timeout(settings.LONGEST_ANSWER_SECONDS):
            async for piece in response.content.iter_any():
                content += piece
                if len(content) > MOST_BYTES:
                    raise too_long(endpoint)
        return decode(bytes(content))
    except aiohttp.ClientError as error:  # its time-outs are TimeoutErrors as well
        raise _unavailable(endpoint, error) from error
    except TimeoutError as error:
        raise BackendTooSlow(f"{endpoint.name} was not done after {settings.LONGEST_ANSWER_SECONDS:g} s.") from error
    except OSError as error:
        raise _unavailable(endpoint, error) from error
    except MalformedAnswer:
        return None
