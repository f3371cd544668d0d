"""An environment as the class that TRL's GRPOTrainer takes as `environment_factory`: for models that write their calls.

    trainer = GRPOTrainer(model, train_dataset=rows, environment_factory=environment_factory("office"))

Each row of the dataset has the task as `task`, an object or its JSON, may have `seed`, and ends in a message to which
TRL adds the first observation. The tools are methods of the class, with the types and docstrings that chat templates
are made from. Imports no torch and no TRL.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from training.engine.environments.protocol import BaseEnvironment, EnvironmentFault, Tool
from training.engine.environments.registry import find_environment
from training.engine.environments.tasks import Task

TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}
OVER = "The episode is over."
FAILED = "The environment failed. Nothing you do counts any more."


def environment_factory(name: str) -> type:
    """The class of this environment, with a method for each tool. Raises UnknownEnvironment, BadEnvironment."""
    environment = find_environment(name)
    members: dict[str, Any] = {"__doc__": environment.does, "_environment": environment}
    methods = {tool.name: _as_method(tool) for tool in environment().tools()}
    return type(f"{environment.__name__}Calls", (Calls,), members | methods)


class Calls:
    """One episode at a time. What TRL takes for a tool is every method without a leading underscore but these two."""

    _environment: type[BaseEnvironment]

    def __init__(self) -> None:
        self._world = self._environment()
        self._earned, self._fault = 0.0, ""

    def reset(self, **row: Any) -> str:
        """Begins an episode and returns what the agent reads first. Raises ValueError for a row without a task."""
        given = row.get("task")
        if given is None:
            raise ValueError("the row has no task")
        decoded = json.loads(given) if isinstance(given, str) else given
        self._earned, self._fault = 0.0, ""
        try:
            return self._world.reset(msgspec.convert(decoded, Task), int(row.get("seed") or 0))
        except EnvironmentFault as fault:
            self._fault = str(fault)
            return FAILED

    def get_reward(self) -> float | None:
        """What the episode earned, as a share of the most that one can earn. None where the environment failed: TRL
        leaves such a rollout out."""
        return None if self._fault else self._earned / self._world.most_reward

    def _call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """What the model reads after a call. A call that is wrong says why, and changes nothing."""
        if self._fault:
            return FAILED
        if self._world.done:
            return OVER
        try:
            result = self._world.step(self._world.read_call(tool, arguments))
        except ValueError as error:
            return f"Error: {error}"
        except EnvironmentFault as fault:
            self._fault = str(fault)
            return FAILED
        self._earned += result.reward
        refused = result.info.get("error")
        return f"Error: {refused}\n{result.observation}" if refused else result.observation


def _as_method(tool: Tool) -> Callable[..., str]:
    def method(self: Calls, **arguments: Any) -> str:
        given = {name: value for name, value in arguments.items() if value is not None}
        return self._call(tool.name, given)

    required = set(tool.parameters.get("required", ()))
    parameters, described = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)], []
    annotations: dict[str, Any] = {"return": str}
    for name, schema in tool.parameters.get("properties", {}).items():
        kind: Any = TYPES[schema.get("type", "string")]
        annotations[name] = kind if name in required else kind | None
        default = inspect.Parameter.empty if name in required else None
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
        described.append(f"    {name}: {schema.get('description') or _say_values(schema, name)}")
    method.__name__ = method.__qualname__ = tool.name
    method.__annotations__ = annotations
    method.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    about = ["", "Args:", *described] if described else []
    method.__doc__ = "\n".join([tool.does, *about, "", "Returns:", "    str: what it found"])
    return method


def _say_values(schema: Mapping[str, Any], name: str) -> str:
    return " or ".join(map(str, schema.get("enum", [name])))
