"""Evaluation on held-out tasks (called by training.engine.evaluation.evaluate): a model acts once on each, as it will
serve.

The serving policy of the spec acts, with the task's own seed, so base and trained model meet the same worlds. An
outside agent that acts in training acts here, too (training.engine.served.rollouts), on each model as it is served
there. A line of `predictions.jsonl` says of a task what one of labelled rows says: `correct` whether it was solved.
Episodes whose environment failed are left out of both and counted.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor

from training.engine.attempt.attempt import Attempt
from training.engine.environments.episodes import Episode
from training.engine.environments.judging import open_judge
from training.engine.environments.registry import find_environment
from training.engine.environments.tasks import Task
from training.engine.episodes.rollouts import roll_out
from training.engine.models.actions import ActionScorer
from training.engine.models.loading import Loaded, fingerprint
from training.engine.scoring.rows import score_rows, serving_probabilities
from training.engine.spec.result import EpisodeScore, ModelScore


def act_on(attempt: Attempt, loaded: Loaded, tasks: Sequence[Task], batch_size: int) -> list[Episode]:
    """An episode of each task, in their order."""
    scorer = ActionScorer(loaded.tokenizer, attempt.spec.max_prompt_tokens, attempt.device)

    def score(states: Sequence[str], offered: Sequence[Sequence[str]]) -> Tensor:
        log_p = score_rows(attempt, loaded.model, scorer, scorer.encode(states), offered, batch_size)
        counts = torch.tensor([len(actions) for actions in offered])
        return serving_probabilities(log_p.cpu().double(), counts, attempt.spec.serving).log()

    acted = fingerprint(dict(loaded.model.named_parameters()))
    return roll_out(score, [(task, task.seed) for task in tasks], acted, open_judge(attempt.spec.judge))


def predict_episodes(which: str, episodes: Sequence[Episode]) -> Iterator[dict[str, Any]]:
    """A prediction of each episode without a fault."""
    for episode in episodes:
        if episode.fault is None:
            yield {
                "id": episode.task,
                "group": episode.group,
                "model": which,
                "action": episode.trajectory[-1].action if episode.trajectory else "",
                "correct": episode.success,
                "expected_right": float(episode.success),
                "score": episode.score,
                "domain": episode.domain,
            }


def write_episodes(which: str, episodes: Sequence[Episode]) -> Iterator[str]:
    """A line of each episode."""
    for episode in episodes:
        yield json.dumps({"model": which, **msgspec.to_builtins(episode)}, ensure_ascii=False)


def score_episodes(episodes: Sequence[Episode]) -> ModelScore:
    """Raises ValueError where all have a fault: there is nothing to say of the model then."""
    sound = [one for one in episodes if one.fault is None]
    if not sound:
        raise ValueError(f"all {len(episodes)} held-out episodes failed; the first: {episodes[0].fault}")
    by_domain: defaultdict[str, list[bool]] = defaultdict(list)
    for one in sound:
        by_domain[one.domain].append(one.success)
    steps = sum(one.steps for one in sound)
    by_step = all(one.graded_by_step for one in sound)
    solved = sum(one.success for one in sound) / len(sound)
    return ModelScore(
        rows=len(sound),
        accuracy=solved,
        probability_of_right=solved,
        episodes=EpisodeScore(
            score=sum(one.score for one in sound) / len(sound),
            reward=sum(one.reward_share for one in sound) / len(sound),
            steps=steps / len(sound),
            progress=_progress(sound) if by_step else None,
            finished=_finished(sound) if by_step else None,
            left_out=len(episodes) - len(sound),
            solved_by_domain={name: sum(values) / len(values) for name, values in sorted(by_domain.items())},
        ),
    )


def _progress(episodes: Sequence[Episode]) -> float:
    earned = sum(step.reward > 0 for one in episodes for step in one.trajectory)
    return earned / max(1, sum(one.steps for one in episodes))


def _finished(episodes: Sequence[Episode]) -> float:
    return sum(one.steps < find_environment(one.environment).max_steps for one in episodes) / len(episodes)
