"""Records calls of functions: as decisions (`Reckoner.recorded`), or as tool calls inside a recording (`tool`).

A call is followed to its end: a plain function ends when it returns, a coroutine when it has been awaited, a generator
when it has been read. A generator's code runs in stretches, with its caller's code between them; the current recording
is set in these stretches only. A wrapper takes, returns, yields and raises what its function does.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

from reckoner_client.recorder import Recorder
from reckoner_client.recording import Recording, ToolCall, current
from reckoner_client.wire import shorten

P = ParamSpec("P")
R = TypeVar("R")
Function = Callable[..., Any]
MakeState = Callable[..., Mapping[str, Any]]
MOST_YIELDED = 10_000


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
    hook: object = None,
) -> Callable[P, R]:
    """`function` with each of its calls as a recording; see `Reckoner.recorded`.

    hook: calls inside a recording of the same hook belong to it, and an episode has the first text as its query.
    """

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        around = current.get()
        if hook is not None and around is not None and around.hook is hook:
            return None
        told: Mapping[str, Any] = {}
        query = None
        try:
            told = state(*args, **kwargs) if state is not None else _bound_arguments(function, args, kwargs)
            if hook is not None:
                query = next((text for text in told.values() if isinstance(text, str)), None)
        except Exception as fault:  # noqa: BLE001 - the host's own function, and the call must go on
            recorder.sender.fault(fault)
        recording = Recording(recorder, agent, told, {"query": query, **fields}, hook)

        def end(result: Any, error: BaseException | None) -> None:
            try:
                if error is None and not recording.has_acted:
                    response = result if isinstance(result, str) else None
                    recording.act(action(result) if action is not None else result, response=response)
            except Exception as fault:  # noqa: BLE001 - the host's own function, and its result must come back
                recorder.sender.fault(fault)
            recording.end(error)

        return Call(recording, end)

    return follow(function, begin)


def tool(function: Callable[P, R], name: str | None = None) -> Callable[P, R]:
    """Decorator: calls inside a recording are noted there as tool calls; outside of any, nothing is added.

    The tool has the function's name if it is not given another.
    """
    return record_calls(function, name or name_of(function).rpartition(".")[2])


def record_calls(function: Callable[P, R], name: str) -> Callable[P, R]:
    """As `tool`; without a name the first argument names the tool that is called."""

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        recording = current.get()
        if recording is None:
            return None
        arguments = _bound_arguments(function, args, kwargs)
        return Call(recording, ToolCall(recording, name or str(next(iter(arguments.values()), "")), arguments).end)

    return follow(function, begin)


def _bound_arguments(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by their names, without self and cls; by their places where the signature cannot be had."""
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
