"""What a reward model gives to fresh decisions: the component `model` of a run's reward, asked about many at once."""

from __future__ import annotations

from collections.abc import Sequence

from training.engine.attempt.attempt import Attempt
from training.engine.methods.reward_model import load_reward_model
from training.engine.rows.types import Prompt
from training.engine.spec.reward_function import RewardFunction


class LearnedReward:
    """Frozen, in (0, 1). What was asked before is remembered: options of one prompt are drawn again and again."""

    def __init__(self, attempt: Attempt, reward: RewardFunction) -> None:
        """Loads the reward model that the spec's reward names, if it names one."""
        self._model = load_reward_model(attempt, reward.source) if reward.source is not None else None
        self._known: dict[tuple[Prompt, str], float] = {}

    def __call__(self, asked: Sequence[tuple[Prompt, str]]) -> list[float | None]:
        """Of each (prompt, text); None without a reward model."""
        if self._model is None:
            return [None] * len(asked)
        fresh = list(dict.fromkeys(pair for pair in asked if pair not in self._known))
        if fresh:
            rewards = self._model.reward([prompt for prompt, _ in fresh], [text for _, text in fresh])
            self._known.update(zip(fresh, rewards, strict=True))
        return [self._known[pair] for pair in asked]
