"""Credit: how much better each step of an episode was than the other steps of its group. No torch.

A group is the episodes of one task. Two ways:

- `return_to_go`: G_t = Σ_{k ≥ t} γ^(k−t) r_k, against the group's own visits of the same state, which serve as its
  baseline: A_t = (G_t − mean) / (deviation + FLAT). A state that was visited once is compared with the group's steps of
  the same number. (The baseline by state is that of VinePPO, Kazemnejad et al. 2024, from the group's own visits.)
- `episode`: one advantage for all steps of an episode, that of its total reward within the group (GRPO, Shao et al.
  2024): A = (R − mean) / (deviation + 10⁻⁴), the deviation that of the sample.

Rewards are divided by the most that an episode can earn, so that one FLAT suits every environment.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from training.engine.environments.episodes import Episode

Credit = Literal["return_to_go", "episode"]
FLAT = 0.05
"""Added to the deviation of returns: a state after which all did nearly as well teaches little, not much."""


def advantages(group: Sequence[Episode], credit: Credit, *, gamma: float, most_reward: float) -> list[list[float]]:
    """Of each episode the advantage of each of its steps; 0 where there is nothing to compare with. Episodes with a
    fault must have been left out."""
    if credit == "episode":
        return _of_episodes(group)
    returns = [discounted(_rewards(one, most_reward), gamma) for one in group]
    by_state: defaultdict[str, list[float]] = defaultdict(list)
    by_number: defaultdict[int, list[float]] = defaultdict(list)
    for episode, values in zip(group, returns, strict=True):
        for number, (step, value) in enumerate(zip(episode.trajectory, values, strict=True)):
            by_state[step.state].append(value)
            by_number[number].append(value)
    return [
        [
            _standing(value, visits if len(visits := by_state[step.state]) > 1 else by_number[number])
            for number, (step, value) in enumerate(zip(episode.trajectory, values, strict=True))
        ]
        for episode, values in zip(group, returns, strict=True)
    ]


def discounted(rewards: Sequence[float], gamma: float) -> list[float]:
    """The return from each step on."""
    returns: list[float] = []
    for reward in reversed(rewards):
        returns.append(reward + gamma * (returns[-1] if returns else 0.0))
    return returns[::-1]


def _rewards(episode: Episode, most: float) -> list[float]:
    return [step.reward / most for step in episode.trajectory]


def _standing(value: float, others: Sequence[float]) -> float:
    deviation = statistics.pstdev(others)
    return (value - statistics.fmean(others)) / (deviation + FLAT) if deviation > 0 else 0.0


def _of_episodes(group: Sequence[Episode]) -> list[list[float]]:
    rewards = [episode.total_reward for episode in group]
    deviation = statistics.stdev(rewards) if len(rewards) > 1 else 0.0
    mean = statistics.fmean(rewards)
    return [[(one.total_reward - mean) / (deviation + 1e-4) if deviation else 0.0] * one.steps for one in group]
