"""One run of an agent: its tool calls, its reasoning, its cost, and how it ended.

At its end it becomes a decision (if an action is known), its steps, and facts about their episode. An agent that fails
before it has acted leaves an episode and no decision. A recording is a context manager; `reckoner_client.following`
makes one of every call of a function.
"""

from __future__ import annotations

import contextvars
import datetime as dt
import functools
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import msgspec

from reckoner_client.recorder import Recorder
from reckoner_client.wire import encode, error_text, shorten, uuid7

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
            self.recorder.sender.fault(fault)

    return cast("M", guarded)


class ToolCall:
    """A tool call that is going on: give it its `result`; an exception is its failure, and passes through."""

    def __init__(self, recording: Recording, name: str, arguments: object) -> None:
        self.result: object = None
        self._recording: Recording | None = recording
        # As they are now: the tool may change what it was given.
        self._begun = {"name": name, "arguments": _value(arguments), "started_at": dt.datetime.now(dt.UTC)}
        self._began = time.perf_counter()

    def end(self, result: object, error: BaseException | None) -> None:
        """Notes how it ended, once; the context manager does this by itself."""
        recording, self._recording = self._recording, None
        if recording is not None:
            ended = {"success": error is None, "duration_ms": (time.perf_counter() - self._began) * 1000}
            told = {"result": _value(result)} if error is None else {"error": error_text(error)}
            recording._add("tool_call", **self._begun, **ended, **told)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end(self.result, error)


class Recording:
    """See `Reckoner.recording`. Its methods may be called from any thread, and never raise.

    `id` is the decision's, for feedback to name. Of more than 1,000 steps the later ones are left out, and of values
    of more than 100 kB the ends.
    """

    def __init__(
        self,
        recorder: Recorder,
        agent: str,
        state: Mapping[str, Any] | None,
        fields: Mapping[str, Any],
        hook: object = None,
    ) -> None:
        self.id: uuid.UUID = uuid7()
        self.hook = hook  # whose run it is
        self.agent = agent
        self.recorder = recorder
        self._fields: dict[str, Any] = dict(fields)
        self._state: Any = _value(state if state is not None else {})
        self._steps: list[dict[str, Any]] = []
        self._usage: dict[str, float] = {}
        self._action: Any = _UNKNOWN
        self._response: str | None = None
        self._started_at = dt.datetime.now(dt.UTC)
        self._began = time.perf_counter()
        self._ended = False

    @_harmless
    def name_session(self, session: str | None) -> None:
        """What the run itself names counts before `fields`; where neither does, the run is a session of its own."""
        self._fields["session"] = shorten(session or self._fields.get("session") or str(self.id), LONGEST_NAME)

    def tool(self, name: str, arguments: object = None) -> ToolCall:
        """A context for one tool call: `with recording.tool("search", {"q": q}) as call: call.result = search(q)`."""
        return ToolCall(self, name, arguments)

    @_harmless
    def reason(
        self, content: str, *, type: str = "", insights: Sequence[str] = (), issues: Sequence[str] = (), **fields: Any
    ) -> None:
        """Notes a step of reasoning. `fields`: `confidence` in [0, 1]."""
        points = {"insights": _value(list(map(str, insights))), "issues": _value(list(map(str, issues)))}
        told = {"content": shorten(content, LARGEST_VALUE), "reasoning_type": shorten(type, 64)}
        self._add("reasoning", **told | points | fields)

    @_harmless
    def llm_call(
        self, model: str, *, tokens_in: int = 0, tokens_out: int = 0, cost: float = 0.0, error: str = "", **fields: Any
    ) -> None:
        """Notes a language model's call and adds it to the usage. `cost`: in your currency; `fields`: `duration_ms`."""
        spent = {"tokens_in": tokens_in, "tokens_out": tokens_out, "cost": cost}
        told = {"model": shorten(model, LONGEST_NAME), "error": error, "success": not error}
        self._add("llm_call", **told | spent | fields)
        self.usage(**spent, llm_calls=1)

    @_harmless
    def usage(self, **more: float) -> None:
        """Adds to tokens_in, tokens_out, cost, llm_calls, tasks_created, tasks_completed or tasks_failed."""
        for name, number in more.items():
            self._usage[name] = self._usage.get(name, 0) + number

    @property
    def has_acted(self) -> bool:
        """Whether an action is known already."""
        return self._action is not _UNKNOWN

    @_harmless
    def act(self, action: Any, *, response: str | None = None, **fields: Any) -> None:
        """Says what was decided; the last one counts. `response` is the final text, `fields` `record_decision`'s."""
        self._action = msgspec.Raw(encode(action))
        text = response if response is not None else action if isinstance(action, str) else None
        self._response = text and shorten(text, LARGEST_VALUE)
        self._fields |= fields

    def __enter__(self) -> Self:
        self._outer = current.get()
        current.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if current.get() is self:  # not where it is left in another context, as some event loops do
            current.set(self._outer)
        self.end(error)

    @_harmless
    def end(self, error: BaseException | None = None) -> None:
        """Sends what was recorded; the context manager does this by itself. A second call does nothing."""
        if not self._ended:
            self._ended = True
            self._send(error)

    @_harmless
    def _add(self, kind: str, **fields: Any) -> None:
        if not self._ended and len(self._steps) < MOST_STEPS:
            self._note(kind, **fields)

    def _note(self, kind: str, *, name: str = "", error: str = "", **fields: Any) -> None:
        named = {"name": shorten(name, LONGEST_NAME) or None, "error": shorten(error, LONGEST_ERROR) or None}
        known = {"id": str(uuid7()), "number": len(self._steps), "kind": kind, "started_at": dt.datetime.now(dt.UTC)}
        self._steps.append(known | named | fields)

    def _send(self, error: BaseException | None) -> None:
        """The decision if there is one, the steps, and their episode if there is anything to say of it."""
        duration: dict[str, Any] = {"duration_ms": (time.perf_counter() - self._began) * 1000}
        if error is not None:
            failed: dict[str, Any] = {"started_at": self._started_at, "success": False, "error": error_text(error)}
            self._note("span", **{"name": self.agent} | failed | duration)
        usage = {name: number if name == "cost" else int(number) for name, number in self._usage.items()}
        session, query = self._fields.pop("session", None), self._fields.pop("query", None)
        named = self._fields.get("episode")
        told = bool(self._steps or usage or session or query or named)
        whole = {"agent": self.agent, "episode": named or (str(self.id) if told else None)}
        if self.has_acted:
            own: dict[str, Any] = {
                "id": self.id,
                "observed_at": self._started_at,
                "latency_ms": duration["duration_ms"],
            }
            own |= {name: usage[name] for name in ("tokens_in", "tokens_out", "cost") if name in usage}
            own |= {"state": self._state, "action": self._action} | whole
            self.recorder.record_decision(**own | self._fields)
        if not told:
            return
        decision = {"decision_id": str(self.id)} if self.has_acted else {}
        for step in self._steps:
            self.recorder.sender.offer("steps", step | whole | decision)
        ended = self._started_at + dt.timedelta(milliseconds=duration["duration_ms"])
        facts = whole | {"session": session, "query": query, "unit": self._fields.get("unit"), "ended_at": ended}
        if named is None:
            # What is said of an episode replaces what was said before: of one with several decisions these would be
            # the last one's. Where nobody says them, Reckoner sums them up.
            facts |= usage | duration | {"started_at": self._started_at}
        self.recorder.sender.offer("episodes", facts | {"final_response": self._response})


def _value(value: object) -> msgspec.Raw | None:
    """JSON of it as it is now; of more than `LARGEST_VALUE` bytes the beginning, as text."""
    if value is None:
        return None
    data = encode(value)
    if len(data) > LARGEST_VALUE:
        data = encode(shorten(data.decode("utf-8"), LARGEST_VALUE // 2))
    return msgspec.Raw(data)
