"""`hook_into_agent`: records the runs of an agent object, and its tools' calls, without changing what it does.

Wrappers take the same, return the same and raise the same; `reckoner_client.replacing` puts them in. Each outermost run
becomes a recording; tool calls are noted in the run that they belong to.
"""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from reckoner_client import wire
from reckoner_client.errors import ConfigurationError
from reckoner_client.recording import Recording, current_recording
from reckoner_client.replacing import Replacements, as_callable_tool, is_marked, mark
from reckoner_client.runs import Run, follow
from reckoner_client.wrapping import RecordedRun, make_state, record_calls

if TYPE_CHECKING:
    from reckoner_client.client import Reckoner

__all__ = ["DISPATCHERS", "RUN_METHODS", "Hook", "hook_into_agent"]

RUN_METHODS = (
    "run", "a_run", "arun", "run_async", "invoke", "ainvoke", "execute", "aexecute", "chat", "achat",
    "stream", "astream",
)  # fmt: skip
# Methods that call a tool by its name, which is their first argument.
DISPATCHERS = ("arun_function", "run_function", "call_tool", "acall_tool", "execute_tool", "use_tool")
# What a tool object is called by, in this order.
TOOL_METHODS = ("run", "arun", "invoke", "ainvoke", "execute", "forward", "func", "fn")
# Hooks whose agents are at work around this code.
_running: contextvars.ContextVar[tuple[Hook, ...]] = contextvars.ContextVar("reckoner_hooks", default=())


class Hook:
    """What was hooked, and how to undo it. As a context manager it undoes it at the end.

    `runs` and `tools` name what is recorded.
    """

    def __init__(self, client: Reckoner, agent: str, make_state: Any, make_action: Any, fields: dict[str, Any]) -> None:
        self.runs: tuple[str, ...] = ()
        self.tools: tuple[str, ...] = ()
        self._client = client
        self._agent = agent
        self._make_state = make_state
        self._make_action = make_action
        self._fields = fields
        self._replaced = Replacements()
        # Runs under way. Without a lock, which a fork from another thread could leave held for ever in the child: one
        # append, one remove and one copy of a list are whole by themselves.
        self._active: list[Recording] = []

    def unhook(self) -> None:
        """Puts everything back as it was. A second call does nothing."""
        self._replaced.undo()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.unhook()

    # Runs

    def current(self) -> Recording | None:
        """The run that this code belongs to. Pools of threads do not inherit it: there it is the only one under way."""
        if (recording := current_recording()) is not None:
            return recording
        active = tuple(self._active)
        return active[0] if len(active) == 1 else None

    def record_runs(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """`method` with its calls recorded: the outermost, those inside it are part of it."""

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Run:
            if self in _running.get():
                return Run()
            state = make_state(self._client, self._make_state, method, args, kwargs)
            query = next((text for text in state.values() if isinstance(text, str)), None)
            return _AgentRun(self, Recording(self._client, self._agent, state, {"query": query} | self._fields))

        return follow(method, begin)


class _AgentRun(RecordedRun):
    """One run of a hooked agent."""

    def __init__(self, hook: Hook, recording: Recording) -> None:
        super().__init__(recording, hook._client, hook._make_action, {_running: (*_running.get(), hook)})
        self._hook = hook

    def __enter__(self) -> Self:
        self._hook._active.append(self.recording)
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        self._hook._active.remove(self.recording)

    def act(self, result: object) -> None:
        self.recording.act(self.action_of(result), response=result if isinstance(result, str) else None)


def hook_into_agent(
    agent: Any,
    client: Reckoner,
    *,
    name: str | None = None,
    run_methods: Iterable[str] = RUN_METHODS,
    tools: Iterable[str] = (),
    containers: Iterable[str] = ("tools",),
    dispatchers: Iterable[str] = DISPATCHERS,
    state: Callable[..., Mapping[str, Any]] | None = None,
    action: Callable[[Any], Any] | None = None,
    **fields: Any,
) -> Hook:
    """Records each run of `agent`, any object with a method that runs it, and the calls of its tools.

    name: the agent's slug in Reckoner; by default its `name`, else its class's name, in lower case.
    run_methods: those of them that the object has; the outermost call is one recording.
    tools: names of the object's own methods that are tools. Besides, what lies in its `containers` (a mapping by name,
    or a list of functions or tool objects) is recorded, and what its `dispatchers` call by name.
    state, action: make the state from a run's arguments and the action from its result; else they are these.
    fields: `record_decision`'s, for every run; `policy_name` is the agent's class by default.

    Raises ConfigurationError when there is nothing to record, or the object lets nothing be replaced; then nothing was.
    """
    slug = name or str(getattr(agent, "name", None) or type(agent).__name__).lower().replace(" ", "-")
    known = {"policy_name": wire.shorten(type(agent).__qualname__, 200)} | fields
    hook = Hook(client, slug, state, action, known)
    try:
        hook.runs = tuple(_hook_runs(hook, agent, run_methods))
        if not hook.runs:
            raise ConfigurationError(
                f"{type(agent).__name__} has none of {', '.join(run_methods)}: name its run_methods."
            )
        found = [*_hook_methods(hook, agent, tools), *_hook_dispatchers(hook, agent, dispatchers)]
        for container in containers:
            found += _hook_container(hook, agent, container)
        hook.tools = tuple(found)
    except BaseException:
        hook.unhook()
        raise
    return hook


def _hook_runs(hook: Hook, agent: Any, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        method = getattr(agent, name, None)
        if not callable(method) or is_marked(method):
            continue
        hook._replaced.set_method(agent, name, mark(hook.record_runs(method)))
        yield name


def _hook_methods(hook: Hook, agent: Any, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        method = getattr(agent, name, None)
        if not callable(method):
            raise ConfigurationError(f"{type(agent).__name__} has no tool {name}.")
        if not is_marked(method):
            hook._replaced.set_method(agent, name, mark(record_calls(method, name, hook.current)))
        yield name


def _hook_dispatchers(hook: Hook, agent: Any, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        method = getattr(agent, name, None)
        if callable(method) and not is_marked(method):
            hook._replaced.set_method(agent, name, mark(record_calls(method, _called_name, hook.current)))
            yield name


def _called_name(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """The tool that a dispatcher is asked for: its first argument."""
    return str(args[0] if args else next(iter(kwargs.values()), ""))


def _hook_container(hook: Hook, agent: Any, name: str) -> Iterator[str]:
    """Functions and tool objects in a mapping or a sequence of the agent."""
    tools = getattr(agent, name, None)
    held = list(tools) if isinstance(tools, tuple) else tools
    if isinstance(held, MutableMapping):
        entries = list(held.items())
    elif isinstance(held, MutableSequence):
        entries = list(enumerate(held))
    else:
        return
    for key, entry in entries:
        called = key if isinstance(key, str) else _tool_name(entry)
        if _hook_tool(hook, held, key, entry, called):
            yield called
    if held is not tools:
        hook._replaced.set_attribute(agent, name, tuple(held))


def _tool_name(entry: Any) -> str:
    return str(getattr(entry, "name", None) or getattr(entry, "__name__", None) or type(entry).__name__)


def _hook_tool(hook: Hook, tools: Any, key: Any, entry: Any, name: str) -> bool:
    """One entry of the agent's tools: a function is replaced there, a tool object has its methods replaced."""
    if is_marked(entry):
        return True
    if isinstance(entry, type):
        return False
    recorded = mark(record_calls(entry, name, hook.current)) if callable(entry) else None
    if inspect.isroutine(entry):
        hook._replaced.set_item(tools, key, recorded)
        return True
    methods = [method for method in TOOL_METHODS if callable(getattr(entry, method, None))]
    for method in methods:
        if not is_marked(getattr(entry, method)):
            wrapper = mark(record_calls(getattr(entry, method), name, hook.current))
            hook._replaced.set_method(entry, method, wrapper)
    if recorded is not None:
        hook._replaced.set_item(tools, key, as_callable_tool(entry, recorded))
    return bool(methods) or recorded is not None
