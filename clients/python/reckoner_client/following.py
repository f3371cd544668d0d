"""Functions whose calls are recorded: as decisions (`recorded`), or as tool calls inside a recording (`tool`).

A call is followed to its end, whatever kind of function it is of: a plain function ends when it returns, a coroutine
when it has been awaited, a generator when it has been read. A generator's code runs in stretches, and between them its
caller's: what is current inside is so in the stretches alone. A wrapper takes what the function takes, returns and
yields what it does, and raises what it raises.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

from reckoner_client.recorder import Recorder
from reckoner_client.recording import LARGEST_VALUE, MOST_STEPS, Recording, Scope, ToolCall, current_recording, scope
from reckoner_client.wire import shorten

P = ParamSpec("P")
R = TypeVar("R")
Function = Callable[..., Any]
MakeState = Callable[..., Mapping[str, Any]]


class Call:
    """One call of a function. As a context it is a stretch of its code, whose exception is the call's end.

    inside: what is current in its code at first; of None nothing is noted. end: is told the result or the exception,
    the first time counts; it must not raise.
    """

    def __init__(
        self, inside: Scope | None = None, end: Callable[[Any, BaseException | None], None] = lambda result, error: None
    ) -> None:
        self.inside = inside
        self.end = end

    def __enter__(self) -> None:
        if self.inside is not None:
            self._entered, self._outside = self.inside, scope.get()
            self._entered.under_way.append(self._entered.recording)
            scope.set(self._entered)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.inside is not None:
            self.inside = scope.get()
            scope.set(self._outside)
            self._entered.under_way.remove(self._entered.recording)
            if error is not None:
                self.end(None, error)


def recorded(
    recorder: Recorder, agent: str, state: MakeState | None, action: Function | None, fields: Mapping[str, Any]
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """See `Reckoner.recorded`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        named = {"policy_name": _name_of(function)} | dict(fields)

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
            told = make_state(recorder, state, function, args, kwargs)
            return recorded_call(Recording(recorder, agent, told, named), action)

        return follow(function, begin)

    return decorate


def recorded_call(recording: Recording, action: Function | None, under_way: list[Any] | None = None) -> Call:
    """A call that is a recording, whose result is the action unless the code has said one."""

    def end(result: Any, error: BaseException | None) -> None:
        try:
            if error is None and not recording.has_acted:
                response = result if isinstance(result, str) else None
                recording.act(action(result) if action is not None else result, response=response)
        except Exception as fault:  # noqa: BLE001 - the host's own function, and its result must come back
            recording.recorder.fault(fault)
        recording.end(error)

    return Call(Scope(recording, "", [] if under_way is None else under_way), end)


def make_state(
    recorder: Recorder, state: MakeState | None, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Mapping[str, Any]:
    """What `state` makes of a call's arguments, else these by their names; nothing where `state` fails."""
    try:
        return state(*args, **kwargs) if state is not None else _bound_arguments(function, args, kwargs)
    except Exception as fault:  # noqa: BLE001 - the host's own function, and the call must go on
        recorder.fault(fault)
        return {}


def tool(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: calls inside a recording are noted there as tool calls; outside of any, nothing is added."""
    return record_calls(function, _name_of(function).rpartition(".")[2], current_recording)


def record_calls(function: Callable[P, R], name: str, find: Callable[[], Recording | None]) -> Callable[P, R]:
    """`function` with its calls noted in the recording that `find` knows at that moment, as those of the tool `name`.

    Without a name it is a dispatcher, whose first argument names the tool. A call inside a call of the same name is
    part of that one: a tool object's methods call each other, and a dispatcher calls a tool.
    """

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        if (recording := find()) is None:
            return Call()
        arguments = _bound_arguments(function, args, kwargs)
        called = name or str(next(iter(arguments.values()), ""))
        around = scope.get()
        if called == around.tool:
            return Call()
        call = ToolCall(recording, called, arguments)

        def end(result: Any, error: BaseException | None) -> None:
            call.result = result
            call.end(error)

        return Call(Scope(recording, called, around.under_way), end)

    return follow(function, begin)


def _bound_arguments(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by their names, without self and cls; by their places where the signature cannot be had."""
    try:
        named = dict(inspect.signature(function).bind(*args, **kwargs).arguments)
    except Exception:  # noqa: BLE001 - builtins have no signature, and a wrong call is the function's own to refuse
        named = {str(index): value for index, value in enumerate(args)} | dict(kwargs)
    return {name: value for name, value in named.items() if name not in {"self", "cls"}}


def _name_of(function: Function) -> str:
    return shorten(str(getattr(function, "__qualname__", type(function).__name__)), 200)


# Following a call


def follow(function: Callable[P, R], begin: Callable[[tuple[Any, ...], dict[str, Any]], Call]) -> Callable[P, R]:
    """`function`, each of its calls followed by what `begin` makes of the arguments; of the same kind as `function`."""
    if inspect.iscoroutinefunction(function):
        followed = _awaited(function, begin)
    elif inspect.isgeneratorfunction(function):
        followed = _read(function, begin)
    elif inspect.isasyncgenfunction(function):
        followed = _read_async(function, begin)
    else:
        followed = _called(function, begin)
    return cast("Callable[P, R]", functools.wraps(function)(followed))


def _called(function: Function, begin: Callable[..., Call]) -> Function:
    def called(*args: Any, **kwargs: Any) -> Any:
        call = begin(args, kwargs)
        with call:
            result = function(*args, **kwargs)
        if call.inside is None:  # nothing is noted: the result itself, whatever it is
            return result
        # What partials, lambdas and other people's decorators hide: it ends when that has been awaited or read.
        hidden = ((inspect.iscoroutine, _awaited), (inspect.isgenerator, _read), (inspect.isasyncgen, _read_async))
        for is_made, goes_on in hidden:
            if is_made(result):
                return goes_on(lambda: result, lambda args, kwargs: call)()
        call.end(result, None)
        return result

    return called


def _awaited(function: Function, begin: Callable[..., Call]) -> Function:
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        call = begin(args, kwargs)
        with call:
            result = await function(*args, **kwargs)
        call.end(result, None)
        return result

    return awaited


def _read(function: Function, begin: Callable[..., Call]) -> Function:
    def read(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        call = begin(args, kwargs)
        with call:
            generator = function(*args, **kwargs)
        return (yield from _Stretches(generator, call))

    return read


def _read_async(function: Function, begin: Callable[..., Call]) -> Function:
    async def read(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        call, output = begin(args, kwargs), _Output()
        with call:
            generator = function(*args, **kwargs)
        step = generator.asend(None)
        while True:
            with call:
                try:
                    item = await step
                except StopAsyncIteration:
                    call.end(output.as_result(), None)
                    return
            output.add(item)
            try:
                step = generator.asend((yield item))
            except GeneratorExit as left:
                with call:
                    await generator.aclose()
                call.end(None, left)
                raise
            except BaseException as thrown:  # noqa: BLE001 - by the reader into the generator
                step = generator.athrow(thrown)

    return read


class _Stretches(Generator[Any, Any, Any]):
    """A generator whose code runs inside the call, as `yield from` wants it."""

    def __init__(self, generator: Generator[Any, Any, Any], call: Call) -> None:
        self._generator = generator
        self._call = call
        self._output = _Output()

    def send(self, value: Any) -> Any:
        return self._go(self._generator.send, value)

    def throw(self, kind: Any, value: Any = None, traceback: TracebackType | None = None) -> Any:
        return self._go(self._generator.throw, kind if value is None else value)

    def _go(self, step: Callable[[Any], Any], value: Any) -> Any:
        with self._call:
            try:
                item = step(value)
            except StopIteration as end:
                self._call.end(self._output.as_result() if end.value is None else end.value, None)
                raise
        self._output.add(item)
        return item

    def close(self) -> None:
        with self._call:
            self._generator.close()
        self._call.end(None, GeneratorExit())


class _Output:
    """What a generator has yielded, up to what a recording keeps: 1,000 things, or 100 kB of text."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._all_text = True
        self._length = 0

    def add(self, item: Any) -> None:
        self._all_text = self._all_text and isinstance(item, str)
        if self._length <= LARGEST_VALUE if self._all_text else len(self._items) < MOST_STEPS:
            self._items.append(item)
            self._length += len(item) if self._all_text else 0

    def as_result(self) -> Any:
        """Text where all of it was, else a list; None where nothing came."""
        if not self._items:
            return None
        return "".join(self._items) if self._all_text else self._items
