"""Calls that are followed from their beginning to their end, whatever kind of function they are of.

A plain function ends when it returns, a coroutine when it has been awaited, a generator when it has been read. A
generator's code runs in stretches, and between them its caller's: what is current inside is so in the stretches alone.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast

from reckoner_client.recording import LARGEST_VALUE, MOST_STEPS

__all__ = ["Begin", "Run", "follow"]

P = ParamSpec("P")
R = TypeVar("R")


class Run:
    """One call, and one of which nothing is noted. As a context it is a stretch of its code, and is entered for each.

    `inside`: context variables, all of them with a default, and what they are in the function's code at first.
    """

    def __init__(self, inside: Mapping[contextvars.ContextVar[Any], Any] = MappingProxyType({})) -> None:
        self._inside = dict(inside)
        self._outside: dict[contextvars.ContextVar[Any], Any] = {}

    def __enter__(self) -> Self:
        for variable, value in self._inside.items():
            self._outside[variable] = variable.get()
            variable.set(value)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for variable, value in self._outside.items():
            self._inside[variable] = variable.get()
            variable.set(value)

    def returned(self, result: object) -> None:
        """It has ended well. Must not raise."""

    def failed(self, error: BaseException) -> None:
        """It has ended with an exception, with GeneratorExit where it was not read to its end. Must not raise."""


Begin = Callable[[tuple[Any, ...], dict[str, Any]], Run]
"""Makes a run of a call's arguments. Must not raise."""


def follow(function: Callable[P, R], begin: Begin, call: Callable[..., Any] | None = None) -> Callable[P, R]:
    """`function`, or `call` in its place, with each of its calls as a run; of the same kind as `function`.

    Takes, returns, yields and raises what it does.
    """
    if inspect.iscoroutinefunction(function):
        followed: Callable[..., Any] = _awaited(call or function, begin)
    elif inspect.isgeneratorfunction(function):
        followed = _read(call or function, begin)
    elif inspect.isasyncgenfunction(function):
        followed = _read_async(call or function, begin)
    else:
        followed = _called(call or function, begin)
    return cast("Callable[P, R]", functools.wraps(function)(followed))


def _called(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        run = begin(args, kwargs)
        try:
            with run:
                result = function(*args, **kwargs)
        except BaseException as error:
            run.failed(error)
            raise
        if type(run) is Run:  # nothing is noted: the result itself, whatever it is
            return result
        # What partials, lambdas and other people's decorators hide: it ends when that has been awaited or read.
        for made, goes_on in (
            (inspect.iscoroutine, _awaited),
            (inspect.isgenerator, _read),
            (inspect.isasyncgen, _read_async),
        ):
            if made(result):
                return goes_on(lambda: result, lambda args, kwargs: run)()
        run.returned(result)
        return result

    return called


def _awaited(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        run = begin(args, kwargs)
        try:
            with run:
                result = await function(*args, **kwargs)
        except BaseException as error:
            run.failed(error)
            raise
        run.returned(result)
        return result

    return awaited


def _read(function: Callable[..., Generator[Any, Any, Any]], begin: Begin) -> Callable[..., Generator[Any, Any, Any]]:
    def read(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        run, output = begin(args, kwargs), _Output()
        try:
            with run:
                generator = function(*args, **kwargs)
            returned = yield from _Stretches(generator, run, output)
        except BaseException as error:
            run.failed(error)
            raise
        run.returned(output.as_result() if returned is None else returned)
        return returned

    return read


def _read_async(
    function: Callable[..., AsyncGenerator[Any, Any]], begin: Begin
) -> Callable[..., AsyncGenerator[Any, Any]]:
    async def read(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        run, output = begin(args, kwargs), _Output()
        try:
            with run:
                generator = function(*args, **kwargs)
            step = generator.asend(None)
            while True:
                try:
                    with run:
                        item = await step
                except StopAsyncIteration:
                    break
                output.add(item)
                try:
                    step = generator.asend((yield item))
                except GeneratorExit:
                    with run:
                        await generator.aclose()
                    raise
                except BaseException as thrown:  # noqa: BLE001 - by the reader into the generator
                    step = generator.athrow(thrown)
        except BaseException as error:
            run.failed(error)
            raise
        run.returned(output.as_result())

    return read


class _Stretches(Generator[Any, Any, Any]):
    """A generator whose code runs inside the run, as `yield from` wants it."""

    def __init__(self, generator: Generator[Any, Any, Any], run: Run, output: _Output) -> None:
        self._generator = generator
        self._run = run
        self._output = output

    def send(self, value: Any) -> Any:
        with self._run:
            item = self._generator.send(value)
        self._output.add(item)
        return item

    def throw(self, kind: Any, value: Any = None, traceback: TracebackType | None = None) -> Any:
        with self._run:
            item = self._generator.throw(kind if value is None else value)
        self._output.add(item)
        return item

    def close(self) -> None:
        with self._run:
            self._generator.close()


class _Output:
    """What a generator has yielded, up to what a recording keeps: 1,000 things, or 100 kB of text."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._all_text = True
        self._length = 0

    def add(self, item: Any) -> None:
        self._all_text = self._all_text and isinstance(item, str)
        has_room = self._length <= LARGEST_VALUE if self._all_text else len(self._items) < MOST_STEPS
        if has_room:
            self._items.append(item)
            self._length += len(item) if self._all_text else 0

    def as_result(self) -> Any:
        """Text where all of it was, else a list; None where nothing came."""
        if not self._items:
            return None
        return "".join(self._items) if self._all_text else self._items
