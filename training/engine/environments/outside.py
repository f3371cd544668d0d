"""Agents of other programs that act by a base URL: an OpenAI-compatible `/v1` that the weights in training answer.

    python -m training.engine RUN_DIR --agent NAME

The operator names the agent where the engine is started, and the API never does: an agent may run programs. One is
built in or comes from a package, as an entry point of the group `reckoner.agents`:

    [project.entry-points."reckoner.agents"]
    clerk = "office_clerk.agent:Clerk"

training.engine.served answers its calls, keeps their tokens, and learns from what each episode earned. No torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import ClassVar, NamedTuple

from training.engine.environments.registry import find_installed
from training.engine.environments.tasks import Task

GROUP = "reckoner.agents"
BUILT_IN: Mapping[str, str] = {
    "openhands": "training.engine.environments.openhands:OpenHands",
    "tools": "training.engine.environments.tool_agent:ToolAgent",
}
"""Name → "module:class"."""


class Endpoint(NamedTuple):
    """What an agent needs to ask the model: it holds for one episode. `model` may be any name."""

    base_url: str
    api_key: str
    model: str = "policy"


class Graded(NamedTuple):
    """What came of an episode, as the environment's grader found it. `reward` is what the model learns from, as a share
    of the most that can be earned; `score` in [0, 1]; `success`: the task is solved."""

    reward: float
    success: bool
    score: float
    components: Mapping[str, float | None] = {}


class OutsideAgent(ABC):
    """Acts on a task by calls to an endpoint. Several episodes run at once, in threads of their own."""

    name: ClassVar[str]
    """By which the operator names it."""
    does: ClassVar[str]
    """One sentence for people."""
    at_once: ClassVar[int] = 16
    """Episodes that run beside each other."""

    def find_missing(self) -> list[str]:
        """What keeps it from running on this machine, and how to get it. Asked before a run begins."""
        return []

    @abstractmethod
    def find_faults(self, task: Task) -> list[str]:
        """What keeps it from acting on the task."""

    @abstractmethod
    def act(self, task: Task, seed: int, endpoint: Endpoint) -> Graded:
        """A whole episode, graded. What the agent does badly is graded as it is; raises EnvironmentFault where its
        world, its program or its grader fails: the episode is then left out, and never counts as 0."""


class UnknownAgent(KeyError):
    """Nothing is installed under this name."""

    def __str__(self) -> str:
        return f"unknown agent {self.args[0]!r}; known: {', '.join(known_agents())}"


class BadAgent(RuntimeError):
    """A package's entry point cannot be used as an agent."""


def known_agents() -> list[str]:
    """All names, sorted."""
    return sorted({*BUILT_IN, *find_installed(GROUP)})


def find_agent(name: str) -> OutsideAgent:
    """The agent of this name; a built-in one before an installed one. Raises UnknownAgent, BadAgent."""
    if name in BUILT_IN:
        module, attribute = BUILT_IN[name].split(":")
        built_in: OutsideAgent = getattr(import_module(module), attribute)()
        return built_in
    if (point := find_installed(GROUP).get(name)) is None:
        raise UnknownAgent(name)
    try:
        found = point.load()
    except Exception as error:  # a package's own code, which may raise whatever it likes
        raise BadAgent(f"agent {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, OutsideAgent)):
        raise BadAgent(f"agent {name!r}: {point.value} is not a subclass of OutsideAgent")
    return found()
