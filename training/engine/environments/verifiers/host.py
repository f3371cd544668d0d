"""Run by an interpreter that has verifiers, which need not be Reckoner's: a taskset's tasks and rewards, as JSON lines.

    python -P host.py TASKSET CONFIG [FOLDER]     CONFIG: a JSON object; FOLDER: where the taskset's module lies

    → {"op": "tasks", "first": 0, "count": 10}                  ← {"tasks": […], "ended": false}
    → {"op": "score", "index": 3, "reply": "…"}                 ← {"rewards": …, "metrics": …, "failed": …}

The first line says what there is, or {"missing": reason}; an answer may be {"fault": reason}. verifiers runs a task's
rewards together, and where one raises none is recorded: the trace then adds up to 0.0. Here each is called by itself,
and one that fails is named and has no number. Standard library and verifiers alone.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, TextIO


def main(arguments: list[str]) -> None:
    # What a taskset prints must not look like an answer.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        host = Host(*arguments)
    except Exception as error:  # noqa: BLE001 - a foreign package may raise anything; whoever asked is told what
        _say(out, {"missing": f"{type(error).__name__}: {error}"})
        return
    _say(out, host.about())
    for line in sys.stdin:
        try:
            asked = json.loads(line)
            answer = host.list_tasks(**asked) if asked.pop("op") == "tasks" else host.score(**asked)
        except Exception as error:  # noqa: BLE001 - as above
            answer = {"fault": f"{type(error).__name__}: {error}"}
        _say(out, answer)


def _say(out: TextIO, answer: Mapping[str, Any]) -> None:
    out.write(json.dumps(answer) + "\n")
    out.flush()


class Host:
    """One taskset. Its tasks are read as far as they are asked for."""

    def __init__(self, name: str, config: str, folder: str = "") -> None:
        if folder:
            sys.path.insert(0, folder)
        import verifiers
        import verifiers.v1 as vf
        from verifiers.v1.utils import loaders

        self.vf, self.version = vf, verifiers.__version__
        kind = loaders.taskset_config_type(name)
        self.taskset = loaders.load_taskset(kind.model_validate({"id": name, **json.loads(config)}))
        # An Env of the taskset's own, such as a game, would be the other side of the conversation.
        env = loaders.environment_class(name)
        self.own_env = None if issubclass(env, vf.SingleAgentEnv) else env.__name__
        self.tasks: list[Any] = []
        self.unread: Iterator[Any] = iter(self.taskset)

    def about(self) -> dict[str, Any]:
        return {"verifiers": self.version, "infinite": bool(self.taskset.INFINITE)}

    def list_tasks(self, first: int, count: int) -> dict[str, Any]:
        self._read(first + count)
        tasks = [self._describe(one) for one in self.tasks[first : first + count]]
        return {"tasks": tasks, "ended": len(self.tasks) < first + count}

    def score(self, index: int, reply: str) -> dict[str, Any]:
        self._read(index + 1)
        if not 0 <= index < len(self.tasks):
            raise IndexError(f"the taskset has {len(self.tasks)} tasks")
        task = self.tasks[index]
        if lacks := self._find_lacks(task):
            raise ValueError("; ".join(lacks))
        return asyncio.run(self._score(task, self._make_trace(task, reply)))

    def _read(self, count: int) -> None:
        self.tasks += islice(self.unread, max(0, count - len(self.tasks)))

    def _describe(self, task: Any) -> dict[str, Any]:
        data = task.data
        return {
            "index": data.idx,
            "key": data.id or data.name or task.key,
            "messages": [one.model_dump(mode="json", exclude_none=True) for one in self._prompt(task)],
            "weights": {fn.__name__: getattr(fn, "_vf_weight", 1.0) for fn in task.hooks("reward")},
            "lacks": self._find_lacks(task),
        }

    def _prompt(self, task: Any) -> list[Any]:
        data, vf = task.data, self.vf
        said = [vf.UserMessage(content=data.prompt)] if isinstance(data.prompt, str) else list(data.prompt or [])
        return [*([vf.SystemMessage(content=data.system_prompt)] if data.system_prompt else []), *said]

    def _find_lacks(self, task: Any) -> list[str]:
        """What a reply alone does not give: why the task's rewards would say nothing about it."""
        lacks, kind, base = [], type(task), self.vf.Task
        if self.own_env:
            lacks.append(f"its environment {self.own_env} takes part in the conversation")
        if not task.data.prompt:
            lacks.append("it has no prompt: a simulated user begins the conversation")
        if task.NEEDS_CONTAINER or task.data.image:
            lacks.append(f"it needs a container{f' of {task.data.image}' if task.data.image else ''}")
        if kind.toolsets(task.config) or type(self.taskset).toolsets(self.taskset.config):
            lacks.append("it gives the agent tools, which run as servers")
        for name in ("setup", "finalize", "stage_verifier"):
            if getattr(kind, name) is not getattr(base, name):
                lacks.append(f"its {name} needs a runtime")
        hooks = [*task.hooks("metric"), *task.hooks("reward")]
        if needing := [fn.__name__ for fn in hooks if "runtime" in _required(fn)]:
            lacks.append(f"{', '.join(needing)} looks into the agent's runtime")
        if task.config.judges:
            lacks.append(f"models judge it: {', '.join(one.name or one.id for one in task.config.judges)}")
        if not task.hooks("reward"):
            lacks.append("it has no reward")
        return lacks

    def _make_trace(self, task: Any, reply: str) -> Any:
        from verifiers.v1.state import state_cls

        vf = self.vf
        told = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        agent = vf.AgentInfo(config=vf.AgentConfig(runtime=vf.SubprocessConfig()))
        trace = vf.Trace(task=told, agent=agent, state=state_cls(type(task))())
        for message in [*self._prompt(task), vf.AssistantMessage(content=reply)]:
            parent = len(trace.nodes) - 1 if trace.nodes else None
            trace.nodes.append(vf.MessageNode(parent=parent, message=message))
        trace.nodes[-1].sampled = True
        trace.is_completed = trace.ok = True
        return trace

    async def _score(self, task: Any, trace: Any) -> dict[str, Any]:
        """Each metric and reward by itself, in verifiers' order, recorded on the trace for those that come after."""
        from verifiers.v1.utils.decorators import invoke

        found: dict[str, dict[str, Any]] = {"rewards": {}, "metrics": {}, "failed": {}}
        for kind in ("metric", "reward"):
            for fn in task.hooks(kind):
                weight = float(getattr(fn, "_vf_weight", 1.0))
                try:
                    told = await invoke(fn, {"task": task.data, "trace": trace})
                    values = {
                        str(name): _number(value)
                        for name, value in (told.items() if isinstance(told, Mapping) else [(fn.__name__, told)])
                    }
                except Exception as error:  # noqa: BLE001 - a grader may raise anything; it is named and no score
                    found["failed"][fn.__name__] = f"{type(error).__name__}: {error}"
                    continue
                for name, value in values.items():
                    if kind == "metric":
                        trace.record_metric(name, value)
                        found["metrics"][name] = value
                    else:
                        trace.record_reward(name, value, weight)
                        found["rewards"][name] = {"score": value, "weight": weight}
        return found


def _required(fn: Any) -> set[str]:
    parameters = inspect.signature(fn).parameters.values()
    return {one.name for one in parameters if one.default is inspect.Parameter.empty}


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"gave {number}, which is not a score")
    return number


if __name__ == "__main__":
    main(sys.argv[1:])
