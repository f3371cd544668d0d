"""`hook_into_agent`: records the runs of an agent object, and its tools' calls, without changing what they do.

A plain hook: wrappers among the object's own attributes and in its `tools`, which `unhook` takes away. Each outermost
run becomes a recording; tool calls are noted in the run that they belong to.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from reckoner_client.errors import ConfigurationError
from reckoner_client.following import Call, Function, follow, make_state, record_calls, recorded_call
from reckoner_client.recorder import Recorder
from reckoner_client.recording import Recording, current_recording
from reckoner_client.wire import shorten

RUN_METHODS = ("run", "a_run", "arun", "invoke", "ainvoke", "execute", "aexecute", "chat", "achat", "stream", "astream")
# Methods that call a tool by its name, which is their first argument.
DISPATCHERS = ("arun_function", "run_function", "call_tool", "acall_tool", "execute_tool", "use_tool")
# What a tool object is called by.
TOOL_METHODS = ("run", "arun", "invoke", "ainvoke", "execute", "forward", "func", "fn")


class Hook(contextlib.ExitStack):
    """What was hooked, and how to undo it. As a context manager it undoes it at the end.

    `runs` and `tools` name what is recorded.
    """

    runs: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()

    def unhook(self) -> None:
        """Puts everything back as it was. A second call does nothing."""
        self.close()

    def _wrap(self, owner: Any, name: str, wrap: Callable[[Function], Function]) -> bool:
        """Wraps `owner.name`, on this object alone; False where there is none, it is wrapped, or cannot be set."""
        method = getattr(owner, name, None)
        if not callable(method) or hasattr(method, "__reckoner__"):
            return False
        # A bound method again: deep copies and pickles bind it to themselves.
        bound = inspect.ismethod(method) and method.__self__ is owner
        wrapper = wrap(method.__func__ if bound else method)
        own = vars(owner).get(name) if hasattr(owner, "__dict__") else None
        put, drop = object.__setattr__, object.__delattr__  # frozen dataclasses and pydantic's models have others
        try:
            put(owner, name, types.MethodType(wrapper, owner) if bound else wrapper)
        except (AttributeError, TypeError):
            return False
        self.callback(*((drop, owner, name) if own is None else (put, owner, name, own)))
        return True

    def _wrap_tools(self, tools: Any) -> Iterator[str]:
        """What lies in a mapping or a list: a function in its place, a tool object by its methods."""
        if not isinstance(tools, MutableMapping | list):
            return
        for key, entry in list(tools.items() if isinstance(tools, MutableMapping) else enumerate(tools)):
            known = key if isinstance(key, str) else getattr(entry, "name", None) or getattr(entry, "__name__", None)
            name = str(known or type(entry).__name__)
            if hasattr(entry, "__reckoner__"):
                yield name
            elif inspect.isroutine(entry) or isinstance(entry, functools.partial):
                tools[key] = record_calls(entry, name)
                self.callback(tools.__setitem__, key, entry)
                yield name
            elif [
                method
                for method in TOOL_METHODS
                if self._wrap(entry, method, functools.partial(record_calls, name=name))
            ]:
                yield name


def hook_into_agent(
    agent: Any,
    client: Recorder,
    *,
    name: str | None = None,
    run_methods: Iterable[str] = RUN_METHODS,
    state: Callable[..., Mapping[str, Any]] | None = None,
    action: Callable[[Any], Any] | None = None,
    **fields: Any,
) -> Hook:
    """Records each run of `agent`, any object with a method that runs it, and the calls of its tools.

    Tools are what lies in its `tools` (a mapping by name, or a list of functions or tool objects), and what a
    dispatcher such as `arun_function` calls by name. A method that is a tool: `agent.search = tool(agent.search)`.

    name: the agent's slug in Reckoner; by default its `name`, else its class's name, in lower case.
    run_methods: those of them that the object has; the outermost call is one recording.
    state, action: make the state from a run's arguments and the action from its result; else they are these.
    fields: `record_decision`'s, for every run; `policy_name` is the agent's class by default.

    Raises ConfigurationError when there is nothing to record, or a method cannot be replaced; then nothing was.
    """
    kind = type(agent).__qualname__
    slug = name or str(getattr(agent, "name", None) or type(agent).__name__).lower().replace(" ", "-")
    known = {"policy_name": shorten(kind, 200)} | fields
    hook = Hook()

    def record_runs(method: Function) -> Function:
        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
            if (around := current_recording()) is not None and around.hook is hook:
                return None  # runs that call each other are one
            given = args[1:] if state is not None and args and args[0] is agent else args
            told = make_state(client, state, method, given, kwargs)
            query = next((text for text in told.values() if isinstance(text, str)), None)
            return recorded_call(Recording(client, slug, told, {"query": query} | known, hook), action)

        return follow(method, begin)

    with contextlib.ExitStack() as failing:
        failing.callback(hook.unhook)
        hook.runs = tuple([method for method in run_methods if hook._wrap(agent, method, record_runs)])
        if not hook.runs:
            raise ConfigurationError(f"No method of {kind} can be hooked: name its run_methods.")
        dispatchers = [
            method for method in DISPATCHERS if hook._wrap(agent, method, functools.partial(record_calls, name=""))
        ]
        hook.tools = (*dispatchers, *hook._wrap_tools(getattr(agent, "tools", None)))
        failing.pop_all()
    return hook
