"""A taskset of verifiers as an environment: the agent reads the prompt, replies once, and the task's rewards pay.

An operator's package names one as an entry point, with the interpreter that has verifiers:

    class Reverse(TasksetEnvironment):
        name = "reverse"
        does = "Words, to be written backwards."
        taskset, python = "reverse_words", "/opt/verifiers/bin/python"

Replies are free text, so it is for agents that write their calls. Of actions to choose from it has one, which gives up.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from training.engine.environments.protocol import BaseEnvironment, Checkpoint, EnvironmentFault, Tool
from training.engine.environments.tasks import Split, Task
from training.engine.environments.verifiers.taskset import HostFailed, Missing, RewardFailed, Scored, Taskset

GIVE_UP, REPLY = "give up", "reply"
HELD_OUT_OF = 5
"""Of so many tasks in a row the last is held out."""


class TasksetEnvironment(BaseEnvironment):
    """`folder`: where the taskset's module lies, where it is no installed package. `config`: the taskset's own fields.

    `most_reward` is what the weights of its rewards add up to, where each is 1 at most."""

    max_steps: ClassVar[int] = 1
    taskset: ClassVar[str]
    python: ClassVar[str]
    folder: ClassVar[str | None] = None
    config: ClassVar[Mapping[str, Any]] = {}
    variables: ClassVar[tuple[str, ...]] = ()
    _open: ClassVar[Taskset | None] = None

    reply: str | None
    scored: Scored | None

    @classmethod
    def open_taskset(cls) -> Taskset:
        """The process of the taskset, one for the class, a new one where it has ended. Raises EnvironmentFault with
        what is missing."""
        if cls._open is not None and cls._open.owner != os.getpid():
            cls._open = None  # a copy of the parent's: two processes must not read from one
        elif cls._open is not None and not cls._open.alive:
            cls.close_taskset()
        if cls._open is None:
            folder = Path(cls.folder) if cls.folder is not None else None
            try:
                cls._open = Taskset(
                    cls.taskset, Path(cls.python), folder=folder, config=cls.config, variables=cls.variables
                )
            except (Missing, HostFailed) as error:
                raise EnvironmentFault(str(error)) from error
        return cls._open

    @classmethod
    def close_taskset(cls) -> None:
        if cls._open is not None:
            cls._open.close()
            cls._open = None

    @classmethod
    def draw_task(cls, number: int, split: Split) -> Task:
        """In the taskset's order. Raises EnvironmentFault where it has no such task, or one that a reply alone cannot
        solve."""
        index = number * HELD_OUT_OF + HELD_OUT_OF - 1 if split == "heldout" else number + number // (HELD_OUT_OF - 1)
        try:
            found = cls.open_taskset().list_tasks(index, 1)
        except HostFailed as error:
            raise EnvironmentFault(str(error)) from error
        if not found:
            raise EnvironmentFault(f"taskset {cls.taskset!r} has no task {index}: draw fewer")
        task = found[0]
        if task.lacks:
            raise EnvironmentFault(f"task {index} of taskset {cls.taskset!r}: {'; '.join(task.lacks)}")
        return Task(f"{cls.name}/{split}/{number}", cls.name, task.text, {"index": index, "key": task.key})

    def begin(self) -> None:
        if not isinstance(self.task.facts.get("index"), int):
            raise ValueError(f"task {self.task.id}: facts: index must be the number of a task of the taskset")
        self.reply, self.scored = None, None

    def observe(self) -> str:
        return self.task.text

    def list_actions(self) -> tuple[str, ...]:
        return (GIVE_UP,)

    def is_valid(self, action: str) -> bool:
        return action == GIVE_UP or action.startswith(f"{REPLY} ")

    def act(self, action: str) -> float:
        self.done = True
        if action == GIVE_UP:
            return 0.0
        self.reply = action.removeprefix(f"{REPLY} ")
        try:
            self.scored = self.open_taskset().score(self.task.facts["index"], self.reply)
            return self.scored.reward
        except (HostFailed, RewardFailed) as error:
            raise EnvironmentFault(str(error)) from error

    def checkpoints(self) -> list[Checkpoint]:
        """A checkpoint for each reward; it is reached where the reward is 1 or more."""
        if self.scored is None:
            return [Checkpoint("a reply", 1, False)]
        return [Checkpoint(name, 1, one.score >= 1.0) for name, one in self.scored.rewards.items()]

    def components(self) -> dict[str, float | None]:
        """The rewards between 0 and 1; others have no share that could be told."""
        rewards = self.scored.rewards if self.scored is not None else {}
        return {name: one.score if 0 <= one.score <= 1 else None for name, one in rewards.items()}

    def tools(self) -> list[Tool]:
        text = {"type": "string", "description": "the whole answer"}
        return [
            Tool(
                REPLY,
                "Answers, which ends the task.",
                {"type": "object", "properties": {"text": text}, "required": ["text"]},
            )
        ]

    def read_call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        if tool != REPLY:
            raise ValueError(f"there is no tool {tool!r}; there is {REPLY}")
        if not isinstance(text := arguments.get("text"), str):
            raise ValueError(f"text: must be a text, not {json.dumps(text)}")
        return f"{REPLY} {text}"
