"""Functions whose calls are recorded: as decisions (`recorded`), or as tool calls inside a recording (`tool`).

A wrapper takes what the function takes, returns what it returns and raises what it raises.
"""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from reckoner_client import wire
from reckoner_client.recording import Recording, ToolCall, current, current_recording
from reckoner_client.runs import Run, follow

if TYPE_CHECKING:
    from reckoner_client.client import Reckoner

__all__ = ["RecordedRun", "make_state", "record_calls", "recorded", "tool"]

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
        named = {"policy_name": _name_of(function)} | dict(fields)

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Run:
            told = make_state(client, state, function, args, kwargs)
            return RecordedRun(Recording(client, agent, told, named), client, action)

        return follow(function, begin)

    return decorate


class RecordedRun(Run):
    """A call that is a recording, whose result is the action unless the code has said one."""

    def __init__(
        self,
        recording: Recording,
        client: Reckoner,
        action: Callable[[Any], Any] | None,
        inside: Mapping[contextvars.ContextVar[Any], Any] | None = None,
    ) -> None:
        super().__init__({current: recording} | dict(inside or {}))
        self.recording = recording
        self._client = client
        self._action = action

    def returned(self, result: object) -> None:
        try:
            self.act(result)
        except Exception as fault:  # noqa: BLE001 - the host's own function, and its result must come back
            self._client._fault(fault)
        self.recording.end()

    def act(self, result: object) -> None:
        if not self.recording.has_acted:
            self.recording.act(self.action_of(result))

    def action_of(self, result: Any) -> Any:
        return self._action(result) if self._action is not None else result

    def failed(self, error: BaseException) -> None:
        self.recording.end(error)


def make_state(
    client: Reckoner,
    state: Callable[..., Mapping[str, Any]] | None,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Mapping[str, Any]:
    """What `state` makes of a call's arguments, else these by their names; nothing where `state` fails."""
    try:
        return state(*args, **kwargs) if state is not None else _bound_arguments(function, args, kwargs)
    except Exception as fault:  # noqa: BLE001 - the host's own function, and the call must go on
        client._fault(fault)
        return {}


def tool(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: calls inside a recording are noted there as tool calls; outside of any, nothing is added."""
    return record_calls(function, _name_of(function).rpartition(".")[2], current_recording)


def record_calls(
    function: Callable[P, R],
    name: str | Callable[[tuple[Any, ...], Mapping[str, Any]], str],
    find: Callable[[], Recording | None],
) -> Callable[P, R]:
    """`function` with its calls noted in the recording that `find` knows at that moment. Behaves as it does.

    `name` is the tool's, or makes it from the arguments. A call inside a call of the same name is part of that one.
    """

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Run:
        recording = find()
        if recording is None:
            return Run()
        try:
            called = name if isinstance(name, str) else name(args, kwargs)
            if called in _calling.get()[-1:]:
                return Run()
            return _ToolRun(ToolCall(recording, called, _bound_arguments(function, args, kwargs)), called)
        except Exception as fault:  # noqa: BLE001 - the call must go on
            recording._client._fault(fault)
            return Run()

    return follow(function, begin)


class _ToolRun(Run):
    """A wrapped tool's call, which knows of those around it."""

    def __init__(self, call: ToolCall, name: str) -> None:
        super().__init__({_calling: (*_calling.get(), name)})
        self._call = call

    def returned(self, result: object) -> None:
        self._call.result = result
        self._call.end()

    def failed(self, error: BaseException) -> None:
        self._call.end(error)


def _bound_arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by their names, without self and cls; by their places where the signature cannot be had."""
    try:
        named = dict(inspect.signature(function).bind(*args, **kwargs).arguments)
    except Exception:  # noqa: BLE001 - builtins have no signature, and a wrong call is the function's own to refuse
        return {str(index): value for index, value in enumerate(args)} | dict(kwargs)
    for own in ("self", "cls"):
        named.pop(own, None)
    return named


def _name_of(function: Callable[..., Any]) -> str:
    return wire.shorten(str(getattr(function, "__qualname__", type(function).__name__)), 200)
