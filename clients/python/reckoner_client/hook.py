"""`hook_into_agent`: records the runs of an agent object, and its tools' calls, without changing what they do.

A plain hook: wrappers among the object's own attributes and in its `tools`, which `unhook` takes away. Each outermost
run becomes a recording; tool calls are noted in the run that they belong to.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from types import TracebackType
from typing import Any, Self

from reckoner_client.errors import ConfigurationError
from reckoner_client.following import Call, Function, follow, make_state, record_calls, recorded_call
from reckoner_client.recorder import Recorder
from reckoner_client.recording import Recording, current_recording, scope
from reckoner_client.wire import shorten

RUN_METHODS = ("run", "a_run", "arun", "invoke", "ainvoke", "execute", "aexecute", "chat", "achat", "stream", "astream")
# Methods that call a tool by its name, which is their first argument.
DISPATCHERS = ("arun_function", "run_function", "call_tool", "acall_tool", "execute_tool", "use_tool")
# What a tool object is called by.
TOOL_METHODS = ("run", "arun", "invoke", "ainvoke", "execute", "forward", "func", "fn")


class Hook:
    """What was hooked, and how to undo it. As a context manager it undoes it at the end.

    `runs` and `tools` name what is recorded.
    """

    def __init__(self) -> None:
        self.runs: tuple[str, ...] = ()
        self.tools: tuple[str, ...] = ()
        # Without a lock, which a fork from another thread could leave held for ever in the child: one append, one
        # remove and one copy of a list are whole by themselves.
        self._under_way: list[Any] = []
        self._undo: list[Callable[[], None]] = []

    def unhook(self) -> None:
        """Puts everything back as it was. A second call does nothing."""
        while self._undo:
            self._undo.pop()()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.unhook()

    def _current(self) -> Recording | None:
        """The run that this code belongs to. Pools of threads do not inherit it: there it is the only one under way."""
        under_way = set(self._under_way.copy())
        return current_recording() or (under_way.pop() if len(under_way) == 1 else None)

    def _wrap(self, owner: Any, name: str, wrap: Callable[[Function], Function]) -> bool:
        """Wraps `owner.name`, on this object alone; False where there is none, it is wrapped, or cannot be set."""
        method = getattr(owner, name, None)
        if not callable(method) or hasattr(method, "__reckoner__"):
            return False
        # A bound method again: deep copies and pickles bind it to themselves.
        bound = inspect.ismethod(method) and method.__self__ is owner
        wrapper = _mark(wrap(method.__func__ if bound else method))
        own = vars(owner).get(name) if hasattr(owner, "__dict__") else None
        put, drop = object.__setattr__, object.__delattr__  # frozen dataclasses and pydantic's models have others
        try:
            put(owner, name, types.MethodType(wrapper, owner) if bound else wrapper)
        except (AttributeError, TypeError):
            return False
        self._undo.append(lambda: drop(owner, name) if own is None else put(owner, name, own))
        return True

    def _wrap_tools(self, tools: Any) -> Iterator[str]:
        """What lies in a mapping or a list: a tool object by its methods, any other callable in its place."""
        if not isinstance(tools, MutableMapping | list):
            return
        for key, entry in list(tools.items() if isinstance(tools, MutableMapping) else enumerate(tools)):
            known = key if isinstance(key, str) else getattr(entry, "name", None) or getattr(entry, "__name__", None)
            name = str(known or type(entry).__name__)
            if isinstance(entry, type):
                continue
            methods = () if inspect.isroutine(entry) or hasattr(entry, "__reckoner__") else TOOL_METHODS
            wrapped = [self._wrap(entry, method, self._tool(name)) for method in methods]
            if callable(entry) and not any(wrapped) and not hasattr(entry, "__reckoner__"):
                tools[key] = _mark(self._tool(name)(entry))
                self._undo.append(functools.partial(tools.__setitem__, key, entry))
            if callable(entry) or any(wrapped):
                yield name

    def _tool(self, name: str) -> Callable[[Function], Function]:
        return lambda call: record_calls(call, name, self._current)


def hook_into_agent(
    agent: Any,
    client: Recorder,
    *,
    name: str | None = None,
    run_methods: Iterable[str] = RUN_METHODS,
    tools: Iterable[str] = (),
    state: Callable[..., Mapping[str, Any]] | None = None,
    action: Callable[[Any], Any] | None = None,
    **fields: Any,
) -> Hook:
    """Records each run of `agent`, any object with a method that runs it, and the calls of its tools.

    name: the agent's slug in Reckoner; by default its `name`, else its class's name, in lower case.
    run_methods: those of them that the object has; the outermost call is one recording.
    tools: names of the object's own methods that are tools. Besides, what lies in its `tools` (a mapping by name, or a
    list of functions or tool objects) is recorded, and what a dispatcher such as `arun_function` calls by name.
    state, action: make the state from a run's arguments and the action from its result; else they are these.
    fields: `record_decision`'s, for every run; `policy_name` is the agent's class by default.

    Raises ConfigurationError when there is nothing to record, or a method cannot be replaced; then nothing was.
    """
    kind = type(agent).__qualname__
    slug = name or str(getattr(agent, "name", None) or type(agent).__name__).lower().replace(" ", "-")
    known = {"policy_name": shorten(kind, 200)} | fields
    hook = Hook()

    def record_runs(method: Function) -> Function:
        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
            if scope.get().under_way is hook._under_way:
                return Call()  # runs that call each other are one
            given = args[1:] if state is not None and args and args[0] is agent else args
            told = make_state(client, state, method, given, kwargs)
            query = next((text for text in told.values() if isinstance(text, str)), None)
            return recorded_call(Recording(client, slug, told, {"query": query} | known), action, hook._under_way)

        return follow(method, begin)

    try:
        hook.runs = tuple([method for method in run_methods if hook._wrap(agent, method, record_runs)])
        if not hook.runs:
            raise ConfigurationError(f"No method of {kind} can be hooked: name its run_methods.")
        found = []
        for method in tools:
            if not hook._wrap(agent, method, hook._tool(method)):
                raise ConfigurationError(f"{kind} has no tool {method} that can be hooked.")
            found.append(method)
        found += [method for method in DISPATCHERS if hook._wrap(agent, method, hook._tool(""))]
        hook.tools = (*found, *hook._wrap_tools(getattr(agent, "tools", None)))
    except BaseException:
        hook.unhook()
        raise
    return hook


def _mark(wrapper: Any) -> Any:
    """Says of a wrapper that it records, so that it is not wrapped again."""
    wrapper.__reckoner__ = True
    return wrapper
