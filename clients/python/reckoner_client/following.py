"""Records calls of functions: as decisions (`Reckoner.recorded`), or as tool calls inside a recording (`tool`).

A call is followed to its end: a plain function ends when it returns, a coroutine when it has been awaited, a generator
when it has been read. A generator's code runs in stretches, with its caller's code between them; the current recording
is set in these stretches only. A wrapper takes, returns, yields and raises what its function does.
"""

from __future__ import annotations

import functools
import inspect
import threading
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

from reckoner_client.recorder import Recorder
from reckoner_client.recording import Recording, ToolCall, current
from reckoner_client.wire import shorten

P = ParamSpec("P")
R = TypeVar("R")
Function = Callable[..., Any]
MakeState = Callable[..., Mapping[str, Any]]
FindTool = Callable[[str], Function | None]
MOST_YIELDED = 10_000
SESSION_ARGUMENTS = ("session_id", "session", "thread_id", "conversation_id")
"""Arguments of a run that name its session; the first that is there counts."""
_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Running:
    """Recordings of one hook that have not ended. A thread that an agent starts does not know the recording that it
    belongs to; where there is only one, it is that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recordings: list[Recording] = []

    def add(self, recording: Recording) -> None:
        with self._lock:
            self._recordings.append(recording)

    def remove(self, recording: Recording) -> None:
        with self._lock:
            if recording in self._recordings:
                self._recordings.remove(recording)

    def only(self) -> Recording | None:
        with self._lock:
            return self._recordings[0] if len(self._recordings) == 1 else None


class Call:
    """One call of a function. As a context it is a stretch of its code, whose exception is the call's end.

    recording: the current one in its code at first. end: is told the result or the exception, the first time counts;
    it must not raise.
    """

    def __init__(self, recording: Recording, end: Callable[[Any, BaseException | None], None]) -> None:
        self._inside: Recording | None = recording
        self.end = end

    def __enter__(self) -> None:
        self._outside = current.get()
        current.set(self._inside)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._inside = current.get()
        current.set(self._outside)
        if error is not None:
            self.end(None, error)


Begin = Callable[[tuple[Any, ...], dict[str, Any]], Call | None]


def record_runs(
    function: Callable[P, R],
    recorder: Recorder,
    agent: str,
    state: MakeState | None,
    action: Function | None,
    fields: Mapping[str, Any],
    running: Running | None = None,
) -> Callable[P, R]:
    """`function` with each of its calls as a recording; see `Reckoner.recorded`.

    running: of a hook. Calls inside one of its recordings belong to that; an episode has the first text as its query,
    and the session that an argument names, else one of its own.
    """

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        around = current.get()
        if running is not None and around is not None and around.hook is running:
            return None
        told: Mapping[str, Any] = {}
        query = session = None
        try:
            session = _find_session(function, args, kwargs) if running is not None else None
            if state is not None:
                told = state(*args, **kwargs)
            else:
                beside = SESSION_ARGUMENTS if running is not None else ()
                bound = _bound_arguments(function, args, kwargs)
                told = {name: value for name, value in bound.items() if name not in beside}
            if running is not None:
                query = next((text for text in told.values() if isinstance(text, str)), None)
        except Exception as fault:  # noqa: BLE001 - the host's own function, and the call must go on
            recorder.sender.fault(fault)
        recording = Recording(recorder, agent, told, {"query": query, **fields}, running)
        if running is not None:
            running.add(recording)
            recording.name_session(session)

        def end(result: Any, error: BaseException | None) -> None:
            try:
                if error is None and not recording.has_acted:
                    response = result if isinstance(result, str) else None
                    recording.act(action(result) if action is not None else result, response=response)
            except Exception as fault:  # noqa: BLE001 - the host's own function, and its result must come back
                recorder.sender.fault(fault)
            recording.end(error)
            if running is not None:
                running.remove(recording)

        return Call(recording, end)

    return follow(function, begin)


def tool(function: Callable[P, R], name: str | None = None) -> Callable[P, R]:
    """Decorator: calls inside a recording are noted there as tool calls; outside of any, nothing is added.

    The tool has the function's name if it is not given another.
    """
    return record_calls(function, name or name_of(function).rpartition(".")[2])


def record_calls(function: Callable[P, R], name: str) -> Callable[P, R]:
    """As `tool`."""

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        recording = current.get()
        if recording is None:
            return None
        return Call(recording, ToolCall(recording, name, _tool_arguments(function, args, kwargs)).end)

    return follow(function, begin)


def record_dispatches(function: Callable[P, R], running: Running, find_tool: FindTool) -> Callable[P, R]:
    """A method that calls a tool by its name, which is its first argument; the others are the tool's. find_tool: the
    function of that name, whose signature names its arguments, or None; it must not raise."""

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        recording = current.get() or running.only()
        if recording is None:
            return None
        try:
            name, arguments = _take_apart(function, args, kwargs, find_tool)
        except Exception as fault:  # noqa: BLE001 - the host's own objects, and the call must go on
            recording.recorder.sender.fault(fault)
            return None
        return Call(recording, ToolCall(recording, name, arguments).end)

    return follow(function, begin)


def _take_apart(
    function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any], find_tool: FindTool
) -> tuple[str, dict[str, Any]]:
    """The tool's name, and its arguments as it gets them."""
    given = _bind(function, args, kwargs)
    if given is None:
        name, positional, named = str(args[0]) if args else "", list(args[1:]), dict(kwargs)
    else:
        values: list[Any] = []
        positional, named = [], {}
        for parameter, value in given:
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                positional += value
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                named |= value
            else:
                values.append(value)
                named[parameter.name] = value
        first = next((parameter.name for parameter, _ in given if parameter.kind not in _MANY), None)
        name = str(named.pop(first)) if first is not None else str(positional.pop(0)) if positional else ""
        # call_tool(name, arguments): all of the tool's arguments in one.
        if len(values) == 2 and isinstance(values[1], Mapping) and len(given) == 2:
            named = dict(values[1])
    target = find_tool(name)
    if target is not None and _bind(target, positional, named) is not None:
        return name, _tool_arguments(target, positional, named)
    return name, ({"args": positional} if positional else {}) | named


def _bind(
    function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[inspect.Parameter, Any]] | None:
    """Each parameter with its value, defaults included, without self and cls. None where the signature cannot be had
    (builtins have none), or does not take them: a wrong call is the function's own to refuse."""
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
    except Exception:  # noqa: BLE001 - see above
        return None
    return [
        (signature.parameters[name], value) for name, value in bound.arguments.items() if name not in {"self", "cls"}
    ]


def _tool_arguments(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """By their names, defaults included; those beyond the names by theirs, or in a list."""
    given = _bind(function, args, kwargs)
    if given is None:
        return {str(index): value for index, value in enumerate(args)} | dict(kwargs)
    named: dict[str, Any] = {}
    for parameter, value in given:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            named |= {name: inner for name, inner in value.items() if name not in named}
        elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL or value:
            named[parameter.name] = list(value) if parameter.kind is inspect.Parameter.VAR_POSITIONAL else value
    return named


def _find_session(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """What the call, or its default, names as the session."""
    named = _tool_arguments(function, args, kwargs)
    found = (named.get(name) for name in SESSION_ARGUMENTS)
    return next((str(one) for one in found if isinstance(one, str | int | uuid.UUID) and str(one)), None)


def _bound_arguments(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a run by their names, without self and cls; by their places where the signature cannot be had."""
    try:
        named = dict(inspect.signature(function).bind(*args, **kwargs).arguments)
    except Exception:  # noqa: BLE001 - builtins have no signature, and a wrong call is the function's own to refuse
        named = {str(index): value for index, value in enumerate(args)} | dict(kwargs)
    return {name: value for name, value in named.items() if name not in {"self", "cls"}}


def name_of(function: Function) -> str:
    return shorten(str(getattr(function, "__qualname__", type(function).__name__)), 200)


def follow(function: Callable[P, R], begin: Begin) -> Callable[P, R]:
    """`function`, each of its calls followed by what `begin` makes of the arguments, or not where it makes nothing."""

    def called(*args: Any, **kwargs: Any) -> Any:
        call = begin(args, kwargs)
        if call is None:
            return function(*args, **kwargs)
        with call:
            result: Any = function(*args, **kwargs)
        # By what comes out: partials, lambdas and other people's decorators hide what kind of function is inside.
        if inspect.iscoroutine(result):
            return _awaited(result, call)
        if inspect.isgenerator(result):
            return _read(result, call)
        if inspect.isasyncgen(result):
            return _read_async(result, call)
        call.end(result, None)
        return result

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return await called(*args, **kwargs)

    # Frameworks ask whether they have to await.
    wrapper: Any = awaited if inspect.iscoroutinefunction(function) else called
    wrapper = functools.wraps(function)(wrapper)
    wrapper.__reckoner__ = True  # `hook_into_agent` does not wrap it again
    return cast("Callable[P, R]", wrapper)


async def _awaited(coroutine: Coroutine[Any, Any, Any], call: Call) -> Any:
    with call:
        result = await coroutine
    call.end(result, None)
    return result


def _read(generator: Generator[Any, Any, Any], call: Call) -> Generator[Any, Any, Any]:
    output: list[Any] = []
    step, given = generator.send, None
    while True:
        with call:
            try:
                item = step(given)
            except StopIteration as end:
                call.end(_as_result(output) if end.value is None else end.value, None)
                return end.value
        _keep(output, item)
        try:
            step, given = generator.send, (yield item)
        except BaseException as thrown:  # noqa: BLE001 - by the reader into the generator, or it is closed
            step, given = generator.throw, thrown


async def _read_async(generator: AsyncGenerator[Any, Any], call: Call) -> AsyncGenerator[Any, Any]:
    output: list[Any] = []
    step = generator.asend(None)
    while True:
        with call:
            try:
                item = await step
            except StopAsyncIteration:
                call.end(_as_result(output), None)
                return
        _keep(output, item)
        try:
            step = generator.asend((yield item))
        except BaseException as thrown:  # noqa: BLE001 - by the reader into the generator, or it is closed
            step = generator.athrow(thrown)


def _keep(output: list[Any], item: Any) -> None:
    if len(output) < MOST_YIELDED:
        output.append(item)


def _as_result(output: list[Any]) -> Any:
    """What was yielded: text where all of it was, else a list; None where nothing came."""
    return "".join(output) if output and all(isinstance(item, str) for item in output) else output or None
