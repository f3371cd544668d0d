"""What an environment is: a task sets it up, actions change it, and each step says what it earned.

An environment offers its valid actions as texts, so a model that scores options acts in it with exact probabilities.
The same environment lists `tools`, for a model that writes its calls freely. `BaseEnvironment` keeps count of the
steps; an environment of its own kind fills in the hooks below "To be filled in". docs/environments.md is the guide.
"""

from __future__ import annotations

import copy
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from training.engine.environments.tasks import Split, Task


class EnvironmentFault(RuntimeError):
    """The environment or its grader failed. The episode says nothing about the agent: it is left out, and never
    counts as 0."""


class ActionResult(NamedTuple):
    """What a step brought. `observation` is all that the agent reads before its next action. `reward` is what this
    step earned, in the environment's own unit. `done`: no action follows. `info` is for people and logs; `error` in it
    says why an action was not taken."""

    observation: str
    reward: float
    done: bool
    info: Mapping[str, Any] = {}


class Checkpoint(NamedTuple):
    """One thing that a task asks for, what it is worth, and whether it is reached now."""

    name: str
    points: int
    reached: bool


class Tool(NamedTuple):
    """A function that a model may call in an environment. `parameters` are a JSON schema of an object."""

    name: str
    does: str
    parameters: Mapping[str, Any]

    def as_openai(self) -> dict[str, Any]:
        """As chats list it."""
        function = {"name": self.name, "description": self.does, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}


class BaseEnvironment(ABC):
    """One world, for one episode at a time: `reset`, then `step` until `done`.

    The same task, seed and actions give the same episode: whatever is drawn comes from `self.random`.
    """

    name: ClassVar[str]
    """By which tasks, runs and people name it."""
    does: ClassVar[str]
    """One sentence for people."""
    max_steps: ClassVar[int] = 10
    most_reward: ClassVar[float] = 1.0
    """What the rewards of an episode add up to at most. Training divides by it."""

    judged: ClassVar[str] = ""
    """The criterion among `components` that only a judge can say; empty where there is none."""

    splits: ClassVar[tuple[Split, ...]] = ("train", "heldout")
    """Which tasks it draws. One that is for measuring only has none to learn from."""

    task: Task
    random: random.Random
    steps: int
    """Actions taken in this episode, those that were not valid among them."""
    done: bool
    _offered: tuple[str, ...] | None

    # What agents and training call.

    def reset(self, task: Task, seed: int = 0) -> str:
        """Begins an episode and returns the first observation. Raises ValueError for a task of another environment or
        with facts that cannot be used, EnvironmentFault where the world cannot be set up."""
        if task.environment != self.name:
            raise ValueError(f"task {task.id} is of environment {task.environment!r}, not of {self.name!r}")
        self.task = task
        self.random = random.Random(f"{task.id}/{seed}")  # noqa: S311 - no secret
        self.steps, self.done = 0, False
        self.begin()
        self._offered = None
        return self.observe()

    def get_valid_actions(self) -> tuple[str, ...]:
        """What is offered now, each once; nothing after the end. It stays the same until the next step."""
        if self.done:
            return ()
        if self._offered is None:
            self._offered = self.list_actions()
        return self._offered

    def step(self, action: str) -> ActionResult:
        """Takes the action. One that is not valid changes nothing but the count, earns 0, and is told why in
        `info["error"]`. Raises RuntimeError after the end, EnvironmentFault where the world or its grader failed."""
        if self.done:
            raise RuntimeError("the episode is over: reset the environment first")
        valid = self.is_valid(action)
        self.steps += 1
        reward = self.act(action) if valid else 0.0
        self._offered = None
        self.done = self.done or self.steps >= self.max_steps
        info = {} if valid else {"error": f"{action!r} is no valid action here"}
        return ActionResult(self.observe(), reward, self.done, info)

    def get_state(self) -> dict[str, Any]:
        """The world as JSON, for people and logs: it may say more than the agent reads."""
        return {"steps": self.steps, "done": self.done, "observation": self.observe()}

    def snapshot(self) -> object:
        """The whole episode as it is now. Later steps do not change it."""
        return copy.deepcopy(self.__dict__)

    def restore(self, snapshot: object) -> None:
        """Goes back to a snapshot of this environment; it may be restored again."""
        assert isinstance(snapshot, dict)
        self.__dict__ = copy.deepcopy(snapshot)

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Lets go of what the world holds outside of memory. It may be reset again."""

    @property
    def score(self) -> float:
        """How much of the task is done, in [0, 1]; 1 if and only if it is solved."""
        reached = self.checkpoints()
        total = sum(point.points for point in reached)
        return sum(point.points for point in reached if point.reached) / total if total else 0.0

    @property
    def solved(self) -> bool:
        """Whether the task is done: every checkpoint is reached."""
        return all(point.reached for point in self.checkpoints())

    # To be filled in.

    @classmethod
    @abstractmethod
    def draw_task(cls, number: int, split: Split) -> Task:
        """Task `number` ≥ 0 of the split: always the same one."""

    @classmethod
    def count_tasks(cls, split: Split) -> int | None:
        """How many tasks the split has; None without an override: as many as are drawn. Raises EnvironmentFault where
        none can be drawn here."""
        return None

    @abstractmethod
    def begin(self) -> None:
        """Sets the world up from `self.task.facts`."""

    @abstractmethod
    def observe(self) -> str:
        """What the agent reads now: the task, and what it needs to know of what was done."""

    @abstractmethod
    def list_actions(self) -> tuple[str, ...]:
        """The valid actions of a world that is not done, each once and none empty, in an order that does not say which
        is right. At least one."""

    @abstractmethod
    def act(self, action: str) -> float:
        """Takes a valid action and returns what it earned. Sets `self.done` where it ends the episode."""

    @abstractmethod
    def checkpoints(self) -> list[Checkpoint]:
        """What the task asks for, at least one, read off the world as it is now. Raises EnvironmentFault where a grader
        fails."""

    def is_valid(self, action: str) -> bool:
        """Whether it may be taken now. Without an override: whether it is offered. A world may take calls that it does
        not offer, from models that write theirs freely."""
        return action in self.get_valid_actions()

    def components(self) -> dict[str, float | None]:
        """Named criteria of the work as it is now, each in [0, 1]; None of one that cannot be told. For people and
        reports: what they are worth in training, `act` says."""
        return {}

    def show_work(self) -> str:
        """What a judge reads of the work as it is now, besides the task; empty while there is none."""
        return ""

    def find_expert_action(self) -> str | None:
        """What a worker who knows the solution does now; None where nobody has written one down."""
        return None

    @classmethod
    def read_problem(cls, text: str) -> Task:
        """A task from the words of a person, such as an equation. The same words give the same task. Raises ValueError
        that says what is wrong with them; without an override no text is read."""
        raise ValueError(f"environment {cls.name!r} cannot read plain texts: give a task with its facts")

    def tools(self) -> list[Tool]:
        """For models that write their calls. Without an override one tool takes any valid action."""
        action = {"type": "string", "description": "one of the valid actions"}
        schema = {"type": "object", "properties": {"action": action}, "required": ["action"]}
        return [Tool("act", "Takes one of the valid actions.", schema)]

    def read_call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """The action that a call means. Raises ValueError that says what is wrong with the call."""
        known = {one.name for one in self.tools()}
        if tool not in known:
            raise ValueError(f"there is no tool {tool!r}; there is {', '.join(sorted(known))}")
        if not isinstance(action := arguments.get("action"), str):
            raise ValueError("action: a text is missing")
        return action


def draw_tasks(environment: type[BaseEnvironment], count: int, split: Split, first: int = 0) -> Iterator[Task]:
    """Tasks number `first` … `first + count − 1` of the split."""
    return (environment.draw_task(number, split) for number in range(first, first + count))
