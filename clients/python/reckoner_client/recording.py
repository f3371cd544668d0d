"""One run of an agent as it happens: its tool calls, its reasoning, what it cost, how it ended.

When it ends it becomes a decision if an action is known, its steps, and what is to be said of their episode. An agent
that fails before it has acted leaves an episode and no decision: none was made. A recording is a context manager;
`reckoner_client.wrapping` makes one of every call of a function, `reckoner_client.hook` of every run of an agent.
Whatever goes wrong in here stays in here.
"""

from __future__ import annotations

import contextlib
import contextvars
import datetime as dt
import functools
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import msgspec

from reckoner_client import wire
from reckoner_client.ids import uuid7

if TYPE_CHECKING:
    from reckoner_client.client import Reckoner

__all__ = ["Recording", "ToolCall", "current", "current_recording"]

M = TypeVar("M", bound=Callable[..., None])
MOST_STEPS = 1_000
LARGEST_VALUE = 100_000
LONGEST_ERROR = 10_000
LONGEST_NAME = 200
_UNKNOWN: Any = object()
current: contextvars.ContextVar[Recording | None] = contextvars.ContextVar("reckoner_recording", default=None)


def current_recording() -> Recording | None:
    """The innermost recording that this code runs in; None outside of any."""
    return current.get()


def _harmless(method: M) -> M:
    """What fails in the bookkeeping is logged and counted, and does not reach the host."""

    @functools.wraps(method)
    def guarded(self: Recording, *args: Any, **kwargs: Any) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as fault:  # noqa: BLE001 - see above
            self._client._fault(fault)

    return cast("M", guarded)


class Step(msgspec.Struct):
    """A tool call, a model call, a piece of reasoning, or the run itself when it failed. `duration_ms` in ms."""

    id: str
    number: int
    kind: str
    started_at: dt.datetime
    name: str = ""
    arguments: msgspec.Raw | None = None
    result: msgspec.Raw | None = None
    success: bool | None = None
    error: str = ""
    reasoning_type: str = ""
    content: str = ""
    confidence: float | None = None
    insights: msgspec.Raw | None = None
    issues: msgspec.Raw | None = None
    model: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: float | None = None
    duration_ms: float | None = None


class ToolCall:
    """A tool call that is going on: give it its `result`; an exception is its failure, and passes through."""

    def __init__(self, recording: Recording, name: str, arguments: object) -> None:
        self.result: object = None
        self._recording = recording
        self._name = name
        # As they are now: the tool may change what it was given.
        self._arguments = _value(arguments)
        self._started_at = dt.datetime.now(dt.UTC)
        self._began = time.perf_counter()

    def end(self, error: BaseException | None = None) -> None:
        """Notes how it ended; the context manager does this by itself."""
        self._recording._add(
            kind="tool_call",
            name=self._name,
            started_at=self._started_at,
            arguments=self._arguments,
            result=None if error is not None else _value(self.result),
            success=error is None,
            error=_error(error),
            duration_ms=(time.perf_counter() - self._began) * 1000,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end(error)


class Recording:
    """See `Reckoner.recording`. Its methods may be called from any thread, and never raise.

    `id` is the decision's, for feedback to name. Of more than 1,000 steps the later ones are left out, and of values
    of more than 100 kB the ends.
    """

    def __init__(
        self, client: Reckoner, agent: str, state: Mapping[str, Any] | None, fields: Mapping[str, Any]
    ) -> None:
        self.id: uuid.UUID = uuid7()
        self.agent = agent
        self._client = client
        self._fields: dict[str, Any] = dict(fields)
        if (around := current_recording()) is not None and "session" in around._fields:
            self._fields.setdefault("session", around._fields["session"])
        self._state: Any = _value(state if state is not None else {})
        self._steps: list[Step] = []
        self._left_out = 0
        self._usage: dict[str, float] = {}
        self._action: Any = _UNKNOWN
        self._response: str | None = None
        self._token: contextvars.Token[Recording | None] | None = None
        self._started_at = dt.datetime.now(dt.UTC)
        self._began = time.perf_counter()
        self._ended = False

    def tool(self, name: str, arguments: object = None) -> ToolCall:
        """A context for one tool call: `with recording.tool("search", {"q": q}) as call: call.result = search(q)`."""
        return ToolCall(self, name, arguments)

    @_harmless
    def tool_call(
        self,
        name: str,
        arguments: object = None,
        *,
        result: object = None,
        success: bool = True,
        error: str = "",
        duration_ms: float | None = None,
    ) -> None:
        """Notes a tool call that is over. An `error` makes it a failure."""
        self._add(
            kind="tool_call",
            name=name,
            arguments=_value(arguments),
            result=_value(result),
            success=success and not error,
            error=wire.shorten(error, LONGEST_ERROR),
            duration_ms=duration_ms,
        )

    @_harmless
    def reason(
        self,
        content: str,
        *,
        type: str = "",
        confidence: float | None = None,
        insights: Sequence[str] | None = None,
        issues: Sequence[str] | None = None,
    ) -> None:
        """Notes a step of reasoning. `confidence` in [0, 1]."""
        self._add(
            kind="reasoning",
            reasoning_type=wire.shorten(type, 64),
            content=wire.shorten(content, LARGEST_VALUE),
            confidence=confidence,
            insights=_points(insights),
            issues=_points(issues),
        )

    @_harmless
    def llm_call(
        self,
        model: str,
        *,
        tokens_in: int = 0,
        tokens_out: int = 0,
        cost: float = 0.0,
        duration_ms: float | None = None,
        error: str = "",
    ) -> None:
        """Notes a call of a language model, and adds it to the recording's usage. `cost` in your currency."""
        self._add(
            kind="llm_call",
            model=wire.shorten(model, LONGEST_NAME),
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost=cost,
            duration_ms=duration_ms,
            success=not error,
            error=wire.shorten(error, LONGEST_ERROR),
        )
        self.usage(tokens_in=tokens_in, tokens_out=tokens_out, cost=cost, llm_calls=1)

    @_harmless
    def usage(self, **more: float) -> None:
        """Adds to `tokens_in`, `tokens_out`, `cost`, `llm_calls`, `tasks_created`, `tasks_completed` or
        `tasks_failed`."""
        for name, number in more.items():
            self._usage[name] = self._usage.get(name, 0) + number

    @property
    def has_acted(self) -> bool:
        """Whether an action is known already."""
        return self._action is not _UNKNOWN

    @_harmless
    def act(self, action: Any, *, response: str | None = None, **fields: Any) -> None:
        """Says what was decided; the last one counts. `response` is the final text, `fields` `record_decision`'s."""
        self._action = msgspec.Raw(wire.encode(action))
        text = response if response is not None else action if isinstance(action, str) else None
        self._response = text and wire.shorten(text, LARGEST_VALUE)
        self._fields |= fields

    def __enter__(self) -> Self:
        self._token = current.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._token is not None:
            # Left in another context than it was entered in, which generators and some event loops do, it stays there.
            with contextlib.suppress(ValueError):
                current.reset(self._token)
            self._token = None
        self.end(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, at)

    @_harmless
    def end(self, error: BaseException | None = None) -> None:
        """Sends what was recorded; the context manager does this by itself. A second call does nothing."""
        if self._ended:
            return
        self._ended = True
        self._send(error)

    @_harmless
    def _add(self, **fields: Any) -> None:
        if self._ended or len(self._steps) >= MOST_STEPS:
            self._left_out += 1
            return
        fields.setdefault("started_at", dt.datetime.now(dt.UTC))
        fields["name"] = wire.shorten(fields.get("name", ""), LONGEST_NAME)
        self._steps.append(Step(str(uuid7()), len(self._steps), fields.pop("kind"), **fields))

    def _send(self, error: BaseException | None) -> None:
        """The decision if there is one, the steps, and their episode if there is anything to say of it."""
        duration_ms = (time.perf_counter() - self._began) * 1000
        if error is not None:
            failed: dict[str, Any] = {"duration_ms": duration_ms, "success": False, "error": _error(error)}
            span = Step(str(uuid7()), len(self._steps), "span", self._started_at, name=self.agent, **failed)
            self._steps.append(span)
        usage = {name: number if name == "cost" else int(number) for name, number in self._usage.items()}
        session, query = self._fields.pop("session", None), self._fields.pop("query", None)
        named = self._fields.get("episode")
        told = bool(self._steps or usage or session or query or named)
        episode = named or (str(self.id) if told else None)
        if self._action is not _UNKNOWN:
            own: dict[str, Any] = {
                "id": self.id,
                "observed_at": self._started_at,
                "latency_ms": duration_ms,
                "episode": episode,
            }
            own |= {name: usage[name] for name in ("tokens_in", "tokens_out", "cost") if name in usage}
            self._client.record_decision(self.agent, self._state, self._action, **(own | self._fields))
        if not told:
            return
        for step in self._steps:
            fields = msgspec.structs.asdict(step) | {"agent": self.agent, "episode": episode}
            if self._action is not _UNKNOWN:
                fields["decision_id"] = str(self.id)
            self._client._offer("steps", step.id, {name: value for name, value in fields.items() if value != ""})
        facts: dict[str, Any] = {
            "agent": self.agent,
            "episode": episode,
            "session": session,
            "unit": self._fields.get("unit"),
            "query": query,
            "final_response": self._response,
            "ended_at": self._started_at + dt.timedelta(milliseconds=duration_ms),
        }
        if named is None:
            # What is said of an episode replaces what was said before: of one with several decisions these would be
            # the last one's. Where nobody says them, Reckoner sums them up.
            facts |= usage | {"started_at": self._started_at, "duration_ms": duration_ms}
        self._client._offer("episodes", episode or "", facts)


def _points(points: Sequence[str] | None) -> msgspec.Raw | None:
    return None if points is None else _value([wire.shorten(str(point), LONGEST_ERROR) for point in points])


def _value(value: object) -> msgspec.Raw | None:
    """JSON of it as it is now; of more than `LARGEST_VALUE` bytes the beginning, as text."""
    if value is None:
        return None
    data = wire.encode(value)
    if len(data) > LARGEST_VALUE:
        data = wire.encode(wire.shorten(data.decode("utf-8"), LARGEST_VALUE // 2))
    return msgspec.Raw(data)


def _error(error: BaseException | None) -> str:
    if error is None:
        return ""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - somebody else's __str__
        text = ""
    return wire.shorten(f"{type(error).__name__}: {text}" if text else type(error).__name__, LONGEST_ERROR)
