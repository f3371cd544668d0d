"""What acts in environments: an agent picks one of the valid actions at a time. No torch."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence

from training.engine.environments.episodes import Episode, Step, end_episode, take_step
from training.engine.environments.protocol import BaseEnvironment, EnvironmentFault
from training.engine.environments.tasks import Task


class BaseAgent(ABC):
    """Picks actions. `run_episode` is the same for every agent."""

    @abstractmethod
    async def select_action(self, observation: str, actions: Sequence[str], environment: BaseEnvironment) -> str:
        """One of the actions, or a text that the environment will refuse. `environment` is for agents that know more
        than the observation, such as the expert; a model reads the observation alone."""

    async def run_episode(self, environment: BaseEnvironment, task: Task, seed: int = 0) -> Episode:
        """Acts from the reset to the end. An EnvironmentFault ends the episode, which then says so."""
        trajectory: list[Step] = []
        fault: str | None = None
        try:
            state = environment.reset(task, seed)
            while not environment.done:
                options = environment.get_valid_actions()
                action = await self.select_action(state, options, environment)
                trajectory.append(take_step(environment, state, action, options))
                state = trajectory[-1].next_state
        except EnvironmentFault as failed:
            fault = str(failed)
        return end_episode(environment, task, seed, trajectory, fault=fault)


def act_now(agent: BaseAgent, environment: BaseEnvironment, task: Task, seed: int = 0) -> Episode:
    """The episode of an agent that waits for nothing, such as those below, also where an event loop is running. Raises
    RuntimeError for one that does wait."""
    episode = agent.run_episode(environment, task, seed)
    try:
        episode.send(None)
    except StopIteration as ended:
        found: Episode = ended.value
        return found
    episode.close()
    raise RuntimeError(f"{type(agent).__name__} is asynchronous: await its run_episode")


class ExpertAgent(BaseAgent):
    """The worker who knows the solution; with `wrong` in [0, 1] it takes so many of its steps at random."""

    def __init__(self, wrong: float = 0.0, seed: int = 0) -> None:
        self.wrong, self.random = wrong, random.Random(f"expert/{seed}")  # noqa: S311 - no secret

    async def select_action(self, observation: str, actions: Sequence[str], environment: BaseEnvironment) -> str:
        """Raises ValueError where the environment has no expert."""
        if self.random.random() < self.wrong:
            return self.random.choice(actions)
        action = environment.find_expert_action()
        if action is None:
            raise ValueError(f"environment {environment.name!r} has no expert")
        return action


class RandomAgent(BaseAgent):
    """Every valid action is as likely."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(f"random/{seed}")  # noqa: S311 - no secret

    async def select_action(self, observation: str, actions: Sequence[str], environment: BaseEnvironment) -> str:
        return self.random.choice(actions)
