"""Evaluation on held-out tasks (called by training.engine.evaluation.evaluate): a model acts twice on each, as it will
serve and greedily.

As it serves, an action is drawn by the serving policy of the spec, with its exploration; greedily the likeliest is
taken. Both have the task's own seed, so base and trained model meet the same worlds. An outside agent that acts in
training acts here, too (training.engine.served.rollouts), on each model as it is served there and at temperature 0. A
line of `predictions.jsonl` says of a task what one of labelled rows says: `correct` whether it was solved as it serves,
and `greedy_correct` whether greedily. A task is left out, and counted, where the environment failed in either.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import torch
from torch import Tensor

from training.engine.attempt.attempt import Attempt
from training.engine.environments.episodes import Episode
from training.engine.environments.judging import open_judge
from training.engine.environments.registry import find_environment
from training.engine.environments.tasks import Task
from training.engine.episodes.rollouts import roll_out
from training.engine.models.acting import hash_saved
from training.engine.models.actions import ActionScorer
from training.engine.models.loading import Loaded
from training.engine.scoring.rows import score_rows, serving_probabilities
from training.engine.spec.result import EpisodeScore, ModelScore


class Acted(NamedTuple):
    """Episodes of the same tasks in the same order, by policy."""

    serving: Sequence[Episode]
    greedy: Sequence[Episode]

    @property
    def sound(self) -> list[tuple[Episode, Episode]]:
        """Serving and greedy episodes of the tasks on which neither has a fault."""
        pairs = zip(self.serving, self.greedy, strict=True)
        return [(one, other) for one, other in pairs if one.fault is None and other.fault is None]


def act_on(attempt: Attempt, loaded: Loaded, tasks: Sequence[Task], batch_size: int) -> Acted:
    """A judge reads the work of the serving episodes alone."""
    scorer = ActionScorer(loaded.tokenizer, attempt.spec.max_prompt_tokens, attempt.device)

    def score(states: Sequence[str], offered: Sequence[Sequence[str]]) -> Tensor:
        return score_rows(attempt, loaded.model, scorer, scorer.encode(states), offered, batch_size).cpu().double()

    def serve(states: Sequence[str], offered: Sequence[Sequence[str]]) -> Tensor:
        counts = torch.tensor([len(actions) for actions in offered])
        return serving_probabilities(score(states, offered), counts, attempt.spec.serving).log()

    def take_likeliest(states: Sequence[str], offered: Sequence[Sequence[str]]) -> Tensor:
        log_p = score(states, offered)
        return torch.full_like(log_p, float("-inf")).scatter(1, log_p.argmax(1, keepdim=True), 0.0)

    asked, acted = [(task, task.seed) for task in tasks], hash_saved(loaded)
    return Acted(
        roll_out(serve, asked, acted, open_judge(attempt.spec.judge)),
        roll_out(take_likeliest, asked, acted),
    )


def predict_episodes(which: str, acted: Acted) -> Iterator[dict[str, Any]]:
    """A prediction of each task without a fault."""
    for serving, greedy in acted.sound:
        yield {
            "id": serving.task,
            "group": serving.group,
            "model": which,
            "action": serving.trajectory[-1].action if serving.trajectory else "",
            "correct": serving.success,
            "expected_right": float(serving.success),
            "greedy_correct": greedy.success,
            "score": serving.score,
            "domain": serving.domain,
        }


def write_episodes(which: str, acted: Acted) -> Iterator[str]:
    """A line of each episode, the serving ones first."""
    for policy, episodes in acted._asdict().items():
        for episode in episodes:
            told = {"model": which, "policy": policy, **msgspec.to_builtins(episode)}
            yield json.dumps(told, ensure_ascii=False)


def score_episodes(acted: Acted) -> ModelScore:
    """Raises ValueError where all tasks have a fault: there is nothing to say of the model then."""
    pairs = acted.sound
    if not pairs:
        fault = acted.serving[0].fault or acted.greedy[0].fault
        raise ValueError(f"all {len(acted.serving)} held-out episodes failed; the first: {fault}")
    sound = [serving for serving, _ in pairs]
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
            serving_success=solved,
            greedy_success=sum(greedy.success for _, greedy in pairs) / len(pairs),
            score=sum(one.score for one in sound) / len(sound),
            reward=sum(one.reward_share for one in sound) / len(sound),
            steps=steps / len(sound),
            progress=_progress(sound) if by_step else None,
            finished=_finished(sound) if by_step else None,
            left_out=len(acted.serving) - len(sound),
            solved_by_domain={name: sum(values) / len(values) for name, values in sorted(by_domain.items())},
        ),
    )


def _progress(episodes: Sequence[Episode]) -> float:
    earned = sum(step.reward > 0 for one in episodes for step in one.trajectory)
    return earned / max(1, sum(one.steps for one in episodes))


def _finished(episodes: Sequence[Episode]) -> float:
    return sum(one.steps < find_environment(one.environment).max_steps for one in episodes) / len(episodes)
