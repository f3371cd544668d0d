"""Rollouts: a model acts in many environments at once, a forward for the next step of all of them.

What an episode draws is a pure function of its task, its seed and the policy, whatever is rolled out beside it, so any
split over batches and processes gives the same episodes.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from torch import Tensor, nn

from training.engine.attempt.attempt import Attempt
from training.engine.environments.episodes import Episode, Step, end_episode, take_step
from training.engine.environments.judging import JudgeModel, judge_episodes
from training.engine.environments.protocol import BaseEnvironment, EnvironmentFault
from training.engine.environments.registry import find_environment
from training.engine.environments.tasks import Task
from training.engine.models.actions import ActionScorer
from training.engine.scoring.rows import score_rows

MOST_AT_ONCE = 256
"""Episodes that are rolled out together."""
Score = Callable[[Sequence[str], Sequence[Sequence[str]]], Tensor]
"""(observations, the actions offered in each) → (B, K) log-probabilities of the acting policy, on the CPU; columns
beyond a row's own actions are never drawn."""


@dataclass(slots=True)
class _Running:
    """An episode that is not over."""

    task: Task
    seed: int
    environment: BaseEnvironment
    draw: random.Random
    state: str = ""
    trajectory: list[Step] = field(default_factory=list)
    fault: str | None = None

    @property
    def over(self) -> bool:
        return self.fault is not None or self.environment.done


def score_by(attempt: Attempt, model: nn.Module, scorer: ActionScorer) -> Score:
    """The model's own probabilities."""

    def score(states: Sequence[str], offered: Sequence[Sequence[str]]) -> Tensor:
        return score_rows(attempt, model, scorer, scorer.encode(states), offered).float().cpu()

    return score


def roll_out(
    score: Score,
    asked: Sequence[tuple[Task, int]],
    weights_hash: str | None = None,
    judge: JudgeModel | None = None,
) -> list[Episode]:
    """An episode of each task with its seed, in their order. One whose environment fails says so in `fault`, with the
    steps before it; so does one whose work the judge did not score. Raises what `score` raises."""
    found: list[Episode] = []
    for start in range(0, len(asked), MOST_AT_ONCE):
        running = [_begin(task, seed) for task, seed in asked[start : start + MOST_AT_ONCE]]
        while acting := [one for one in running if not one.over]:
            offered = [one.environment.get_valid_actions() for one in acting]
            log_p = score([one.state for one in acting], offered)
            for one, options, row in zip(acting, offered, log_p.tolist(), strict=True):
                place = draw_place(row[: len(options)], one.draw.random())
                _take(one, options, place, row[place])
        ended = [_end(one, weights_hash) for one in running]
        found += judge_episodes(judge, ended) if judge is not None else [episode for episode, _ in ended]
    return found


def draw_place(log_p: Sequence[float], chance: float) -> int:
    """The option that a number in [0, 1) picks."""
    chances = list(accumulate(map(math.exp, log_p)))
    return min(bisect_right(chances, chance), len(log_p) - 1)  # sums may round to less than 1


def _begin(task: Task, seed: int) -> _Running:
    draw = random.Random(f"{task.id}/{seed}/acts")  # noqa: S311 - reproducible
    one = _Running(task, seed, find_environment(task.environment)(), draw)
    try:
        one.state = one.environment.reset(task, seed)
    except EnvironmentFault as fault:
        one.fault = str(fault)
    return one


def _take(one: _Running, options: tuple[str, ...], place: int, log_p: float) -> None:
    try:
        step = take_step(one.environment, one.state, options[place], options, log_p)
    except EnvironmentFault as fault:
        one.fault = str(fault)
        return
    one.trajectory.append(step)
    one.state = step.next_state


def _end(one: _Running, weights_hash: str | None) -> tuple[Episode, str]:
    """The episode, and what a judge would read of it."""
    ended = end_episode(one.environment, one.task, one.seed, one.trajectory, weights_hash=weights_hash, fault=one.fault)
    work = one.environment.show_work() if ended.fault is None else ""
    one.environment.close()
    return ended, work
