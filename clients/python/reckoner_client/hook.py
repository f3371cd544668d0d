"""`hook_into_agent`: records the runs of an agent object, and the tool calls that go through it.

The hook is wrappers among the object's own attributes, which `unhook` removes. Each outermost run is a recording.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from reckoner_client.errors import ConfigurationError
from reckoner_client.following import Function, Running, name_of, record_dispatches, record_runs
from reckoner_client.recorder import Recorder

RUN_METHODS = ("run", "a_run", "arun", "invoke", "ainvoke", "execute", "aexecute", "chat", "achat", "stream", "astream")
TOOL_REGISTRIES = ("tools", "functions", "tool_registry", "_tool_registry")
"""Attributes of an agent that hold its tools by their names, as functions or as `{"func": function}`."""
TOOL_METHODS = ("arun_function", "run_function", "call_tool", "acall_tool", "execute_tool", "use_tool")


class Hook(contextlib.ExitStack):
    """What was hooked, and how to undo it. As a context manager it undoes it at the end.

    `runs` and `tools` name the methods whose calls are recorded.
    """

    runs: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()

    def unhook(self) -> None:
        """Puts everything back as it was. A second call does nothing."""
        self.close()

    def _wrap(self, agent: Any, names: Iterable[str], wrap: Callable[[Function], Function]) -> tuple[str, ...]:
        """Those of the methods that the agent has and lets be replaced, each replaced on this object alone."""
        return tuple([name for name in names if self._wrap_one(agent, name, wrap)])

    def _wrap_one(self, agent: Any, name: str, wrap: Callable[[Function], Function]) -> bool:
        method = getattr(agent, name, None)
        if not callable(method) or hasattr(method, "__reckoner__"):
            return False
        put, drop = object.__setattr__, object.__delattr__  # frozen dataclasses and pydantic's models have others
        own = vars(agent).get(name) if hasattr(agent, "__dict__") else None
        try:
            put(agent, name, wrap(method))
        except (AttributeError, TypeError):
            return False
        self.callback(*((drop, agent, name) if own is None else (put, agent, name, own)))
        return True


def hook_into_agent(
    agent: Any,
    client: Recorder,
    *,
    name: str | None = None,
    run_methods: Iterable[str] = RUN_METHODS,
    tool_methods: Iterable[str] = TOOL_METHODS,
    state: Callable[..., Mapping[str, Any]] | None = None,
    action: Callable[[Any], Any] | None = None,
    **fields: Any,
) -> Hook:
    """Records each run of `agent`, any object with a method that runs it. Other tools are recorded by `tool`.

    name: the agent's slug in Reckoner; by default its `name`, else its class's name, in lower case.
    run_methods: those of them that the object has; the outermost call is one recording, and one session: the one that
    its argument `session_id` (or `session`, `thread_id`, `conversation_id`) names, else `session` of the fields, else
    one of its own.
    tool_methods: methods that call a tool by its name, which is their first argument; the others are the tool's. Where
    the agent holds its tools by name in `tools`, the tool's signature names them and adds its defaults.
    state, action: make the state from a run's arguments and the action from its result; else they are these.
    fields: `record_decision`'s, for every run; `policy_name` is the agent's class by default.

    Raises ConfigurationError when there is no object, when it has no such method or none that can be replaced, and when
    Reckoner answers that it has no such agent (`Reckoner.check_agent`).
    """
    if agent is None:
        raise ConfigurationError("There is no agent to hook: it is None.")
    kind = type(agent)
    slug = name or str(getattr(agent, "name", None) or kind.__name__).lower().replace(" ", "-")
    known = {"policy_name": name_of(kind)} | fields
    hook, running = Hook(), Running()
    hook.runs = hook._wrap(
        agent, run_methods, lambda run: record_runs(run, client, slug, state, action, known, running)
    )
    if not hook.runs:
        raise ConfigurationError(f"No method of {kind.__qualname__} can be hooked: name its run_methods.")
    find_tool = functools.partial(_find_tool, agent)
    hook.tools = hook._wrap(agent, tool_methods, lambda call: record_dispatches(call, running, find_tool))
    try:
        client.check_agent(slug)
    except ConfigurationError:
        hook.unhook()
        raise
    return hook


def _find_tool(agent: Any, name: str) -> Function | None:
    for registry in TOOL_REGISTRIES:
        try:
            entry = getattr(agent, registry)[name]
            found = entry.get("func") or entry.get("function") if isinstance(entry, Mapping) else entry
        except Exception:  # noqa: BLE001, S112 - the host's own attributes: most agents have none of these
            continue
        if callable(found):
            return found  # type: ignore[no-any-return]
    return None
