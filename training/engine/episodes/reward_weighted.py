"""Reward-weighted regression over episodes: what the starting weights did is imitated, the more the more it earned.

    loss = − 1/n Σ w log π(a | s) / mean(w),      w = R of the episode / the most that an episode can earn

over all steps of all episodes (Peters and Schaal 2007, with the return of the whole episode). Each task is acted on
`reward_weighted.episodes` times by the starting weights, without dropout, before anything is learnt; the weights that
drew the actions are those that begin to learn, so there is no propensity to divide by. A failed episode is left out and
counted. Every episode is a line of `training_episodes.jsonl`.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import RunData
from training.engine.environments.episodes import Episode
from training.engine.environments.judging import open_judge
from training.engine.environments.registry import find_environment
from training.engine.episodes.kept import NothingToLearn, keep_episodes
from training.engine.episodes.lines import EPISODES_FILE
from training.engine.episodes.rollouts import roll_out, score_by
from training.engine.methods.offline import Decisions
from training.engine.models.acting import ActingHash
from training.engine.models.actions import ActionScorer
from training.engine.models.loading import Loaded
from training.engine.rows.types import Logged


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place. Raises NothingToLearn where every episode failed or earned nothing."""
    loaded.model.eval()
    score = score_by(
        attempt, loaded.model, ActionScorer(loaded.tokenizer, attempt.spec.max_prompt_tokens, attempt.device)
    )
    first, count = attempt.spec.seed * 1_000_003, attempt.spec.reward_weighted.episodes
    asked = [(task, first + number) for task in data.tasks for number in range(count)]
    episodes = roll_out(score, asked, ActingHash(loaded).find(), open_judge(attempt.spec.judge))
    (attempt.folder / EPISODES_FILE).unlink(missing_ok=True)  # where the training begins again for lack of memory
    keep_episodes(attempt, 1, episodes)
    failed = [one.fault for one in episodes if one.fault is not None]
    if len(failed) == len(episodes):
        raise NothingToLearn(f"every episode failed; the first: {failed[0]}")
    rows = [row for number, one in enumerate(episodes) if one.fault is None for row in _rows_of(one, number)]
    if not rows:
        raise NothingToLearn("no episode with a reward above 0 has a choice to imitate")
    weights = torch.tensor([row.reward or 0.0 for row in rows], device=attempt.device)
    outcome = Decisions(attempt, loaded, rows).imitate(weights, "learning from rewarded episodes")
    rewards = [share_earned(one) for one in episodes if one.fault is None]
    return replace(outcome.also(faults=len(failed) / len(episodes)), rewards=rewards)


def share_earned(episode: Episode) -> float:
    """The episode's reward as a share of the most that its environment pays, in [0, 1]."""
    most = find_environment(episode.environment).most_reward
    return min(1.0, max(0.0, episode.total_reward / most))


def _rows_of(episode: Episode, number: int) -> list[Logged]:
    """Its steps with a choice in them, each worth what the episode earned; none where it earned nothing."""
    if (reward := share_earned(episode)) == 0.0:
        return []
    return [
        Logged(f"{number}/{place}", step.state, step.options, step.action, reward=reward, group=episode.task)
        for place, step in enumerate(episode.trajectory)
        if len(step.options) > 1
    ]
