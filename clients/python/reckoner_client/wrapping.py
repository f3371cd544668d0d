"""Functions whose calls are recorded: as decisions (`recorded`), or as tool calls inside a recording (`tool`).

A wrapper takes what the function takes, returns what it returns and raises what it raises.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast

from reckoner_client import wire
from reckoner_client.errors import ConfigurationError
from reckoner_client.recording import Recording, ToolCall, current_recording, reset

if TYPE_CHECKING:
    from reckoner_client.client import Reckoner

__all__ = ["bound_arguments", "record_calls", "recorded", "tool"]

P = ParamSpec("P")
R = TypeVar("R")
# Tools that are being called around this code: a tool object's methods call each other, a dispatcher calls a tool.
_calling: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("reckoner_calling", default=())


def recorded(
    client: Reckoner,
    agent: str,
    *,
    state: Callable[..., Mapping[str, Any]] | None,
    action: Callable[[Any], Any] | None,
    fields: Mapping[str, Any],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """See `Reckoner.recorded`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        refuse_generator(function)
        named = {"policy_name": _name_of(function)} | dict(fields)

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Recording:
            told: Mapping[str, Any] = {}
            try:
                told = state(*args, **kwargs) if state is not None else bound_arguments(function, args, kwargs)
            except Exception as fault:  # noqa: BLE001 - the host's own function, and the call must go on
                client._fault(fault)
            return Recording(client, agent, told, named)

        def finish(recording: Recording, result: object) -> None:
            if not recording.has_acted:
                try:
                    recording.act(action(result) if action is not None else result)
                except Exception as fault:  # noqa: BLE001 - the host's own function, and its result must come back
                    client._fault(fault)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                with begin(args, kwargs) as recording:
                    result = await function(*args, **kwargs)
                    finish(recording, result)
                    return result

            return cast("Callable[P, R]", awaited)

        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            with begin(args, kwargs) as recording:
                result = function(*args, **kwargs)
                finish(recording, result)
                return result

        return called

    return decorate


def tool(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: calls inside a recording are noted there as tool calls; outside of any, nothing is added."""
    refuse_generator(function)
    return record_calls(function, _name_of(function).rpartition(".")[2], current_recording)


def record_calls(
    function: Callable[P, R],
    name: str | Callable[[tuple[Any, ...], Mapping[str, Any]], str],
    find: Callable[[], Recording | None],
) -> Callable[P, R]:
    """`function` with its calls noted in the recording that `find` knows at that moment. Behaves as it does.

    `name` is the tool's, or makes it from the arguments. A call inside a call of the same name is part of that one.
    """

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _NestedCall:
        recording = find()
        if recording is None:
            return _NestedCall(None, "", None)
        try:
            called = name if isinstance(name, str) else name(args, kwargs)
            if called in _calling.get()[-1:]:
                return _NestedCall(None, "", None)
            return _NestedCall(recording, called, bound_arguments(function, args, kwargs))
        except Exception as fault:  # noqa: BLE001 - the call must go on
            recording._client._fault(fault)
            return _NestedCall(None, "", None)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with begin(args, kwargs) as call:
                call.result = await function(*args, **kwargs)
                return call.result

        return cast("Callable[P, R]", awaited)

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        call = begin(args, kwargs)
        with call:
            result = function(*args, **kwargs)
            # A plain function that makes a coroutine, as partials and lambdas do: it ends when that is awaited.
            call.goes_on = inspect.iscoroutine(result)
            call.result = result
        return cast("R", _awaited(call, result)) if call.goes_on else result

    return called


class _NestedCall(ToolCall):
    """A wrapped tool's call, which knows of those around it."""

    goes_on = False
    _token: contextvars.Token[tuple[str, ...]]

    def __enter__(self) -> Self:
        if self._recording is not None:
            self._token = _calling.set((*_calling.get(), self._name))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._recording is None:
            return
        reset(_calling, self._token)
        if not self.goes_on:
            self.end(error)


async def _awaited(call: _NestedCall, coroutine: Any) -> Any:
    with call:
        call.goes_on = False
        call.result = await coroutine
        return call.result


def bound_arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by their names, without self and cls; by their places where the signature cannot be had."""
    try:
        named = dict(inspect.signature(function).bind(*args, **kwargs).arguments)
    except Exception:  # noqa: BLE001 - builtins have no signature, and a wrong call is the function's own to refuse
        return {str(index): value for index, value in enumerate(args)} | dict(kwargs)
    for own in ("self", "cls"):
        named.pop(own, None)
    return named


def refuse_generator(function: Callable[..., Any]) -> None:
    """Raises ConfigurationError: what a generator decides has no moment, and no result to be had."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(
            f"{_name_of(function)} is a generator: use `with client.recording(…)` inside it, and `recording.act(…)`."
        )


def _name_of(function: Callable[..., Any]) -> str:
    return wire.shorten(str(getattr(function, "__qualname__", type(function).__name__)), 200)
