"""What a reward model gives to fresh decisions: the component `model` of a run's reward, asked about many at once."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from training.engine.attempt.attempt import Attempt
from training.engine.methods.reward_model import load_reward_model
from training.engine.models.prompts import as_prompt
from training.engine.rows.calls import as_reply
from training.engine.rows.types import Prompt
from training.engine.spec.reward_function import RewardFunction


class LearnedReward:
    """Frozen, in (0, 1). What was asked before is remembered: options of one prompt are drawn again and again."""

    def __init__(self, attempt: Attempt, reward: RewardFunction) -> None:
        """Loads the reward model that the spec's reward names, if it names one."""
        self._model = load_reward_model(attempt, reward.source) if reward.source is not None else None
        self._known: dict[bytes, float] = {}

    def __call__(self, asked: Sequence[tuple[Prompt, str]]) -> list[float | None]:
        """Of each (prompt, text); None without a reward model."""
        if self._model is None:
            return [None] * len(asked)
        keys = [msgspec.json.encode(pair) for pair in asked]
        fresh = {key: pair for key, pair in zip(keys, asked, strict=True) if key not in self._known}
        if fresh:
            replies = [as_reply(text, as_prompt(prompt).tools) for prompt, text in fresh.values()]
            rewards = self._model.reward([prompt for prompt, _ in fresh.values()], replies)
            self._known.update(zip(fresh, rewards, strict=True))
        return [self._known[key] for key in keys]
