"""What an agent did in an environment, step by step, and as a line of JSON. No torch."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from training.engine.environments.protocol import BaseEnvironment, EnvironmentFault
from training.engine.environments.registry import find_environment
from training.engine.environments.tasks import Task


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One decision of an episode. `state` and `next_state` are what the agent read before and after it. `options` were
    on offer; `log_p` is the action's log-probability among them, null where the agent did not tell it. `error`: why
    the action was not taken."""

    state: str
    action: str
    reward: float
    next_state: str
    options: tuple[str, ...] = ()
    log_p: float | None = None
    error: str | None = None


class Episode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole episode. `total_reward` is in the environment's unit, `score` in [0, 1]; `success`: the task is solved.

    `weights_hash` is that of the weights which acted, null where no model did. `fault`: the environment or its grader
    failed, so that the episode says nothing about the agent; its reward, score and success count nowhere.
    """

    task: str
    problem: str
    environment: str
    seed: int
    trajectory: tuple[Step, ...]
    total_reward: float
    success: bool
    score: float
    domain: str = ""
    group: str = ""
    weights_hash: str | None = None
    fault: str | None = None
    components: dict[str, float | None] = {}
    """Named criteria in [0, 1] at the end, None of one that could not be told."""

    @property
    def steps(self) -> int:
        return len(self.trajectory)

    @property
    def reward_share(self) -> float:
        """What the environment paid, as a share of the most that it pays."""
        return self.total_reward / find_environment(self.environment).most_reward

    @property
    def graded_by_step(self) -> bool:
        """Whether each step says what it earned."""
        return True


def take_step(
    environment: BaseEnvironment, state: str, action: str, options: tuple[str, ...] = (), log_p: float | None = None
) -> Step:
    """Takes the action, which an agent chose in `state` among the `options`. Raises EnvironmentFault."""
    result = environment.step(action)
    error = result.info.get("error")
    told = None if error is None else str(error)
    return Step(state, action, result.reward, result.observation, options, log_p, told)


def end_episode(
    environment: BaseEnvironment,
    task: Task,
    seed: int,
    trajectory: Sequence[Step],
    *,
    weights_hash: str | None = None,
    fault: str | None = None,
) -> Episode:
    """What came of it, read off the world; a fault of its graders is the episode's, as one before the end is."""
    success, score, components = False, 0.0, dict[str, float | None]()
    if fault is None:
        try:
            success, score, components = environment.solved, environment.score, environment.components()
        except EnvironmentFault as failed:
            success, score, fault = False, 0.0, str(failed)
    return Episode(
        task=task.id,
        problem=task.text,
        environment=task.environment,
        seed=seed,
        trajectory=tuple(trajectory),
        total_reward=sum(step.reward for step in trajectory),
        success=success,
        score=score,
        domain=task.domain,
        group=task.group,
        weights_hash=weights_hash,
        fault=fault,
        components=components,
    )
