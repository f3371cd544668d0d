"""GRPO over episodes: the weights in training act in environments, and learn from what their own steps earned.

Every update, `prompts_per_step` tasks are each acted on `group` times by the weights as they are; then

    loss = − 1/N Σ min(ρ A, clip(ρ, 1 − ε, 1 + ε) A) + β KL(π ‖ π_start),      ρ = π(a | s) / π_old(a | s)

over all steps of the N episodes, with the advantage A of training.engine.episodes.credit. One update a batch: ρ is 1
and the update on-policy. Each trajectory carries the hash of the weights that acted, and others are refused. An episode
whose environment, grader or judge failed is left out and counted. Every episode is a line of `training_episodes.jsonl`.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import RunData
from training.engine.environments.episodes import Episode, Step
from training.engine.environments.judging import open_judge
from training.engine.environments.registry import find_environment
from training.engine.environments.tasks import Task
from training.engine.episodes.credit import advantages
from training.engine.episodes.guard import learn_guarded, open_guard
from training.engine.episodes.kept import NothingToLearn, keep_episodes
from training.engine.episodes.order import TaskOrder
from training.engine.episodes.rollouts import roll_out, score_by
from training.engine.methods.online import ForeignTrajectories, clipped_surrogate
from training.engine.models.acting import ActingHash
from training.engine.models.actions import ActionScorer
from training.engine.models.loading import Loaded, trainable_parameters
from training.engine.scoring.rows import divergence
from training.engine.updates.accumulate import Accumulation
from training.engine.updates.answers import text_share
from training.engine.updates.fit import Metrics, Updates

PROBED = 8
"""Episodes of each template by the starting policy, where a curriculum wants to know its success."""


class Taken(msgspec.Struct, frozen=True):
    """A step to learn from. `place`: of its action among the options."""

    step: Step
    place: int
    advantage: float


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place, without dropout: what acts is what is trained."""
    return Learner(attempt, loaded, data).learn()


class Learner:
    """One run's tasks, policy and updates."""

    def __init__(self, attempt: Attempt, loaded: Loaded, data: RunData) -> None:
        """Call before the weights change or are restored."""
        spec, tasks = attempt.spec, data.tasks
        self.attempt, self.tasks, self.settings = attempt, tasks, spec.online
        self.model: nn.Module = loaded.model
        self.scorer = ActionScorer(loaded.tokenizer, spec.max_prompt_tokens, attempt.device)
        self.score, self.judge = score_by(attempt, self.model, self.scorer), open_judge(spec.judge)
        self.start = starting_policy(loaded, fresh=spec.base.adapter is None) if self.settings.kl_of_fresh else None
        self.order = TaskOrder(attempt, tasks, self._probe() if self.settings.curriculum is not None else {})
        self.updates = Updates(
            trainable_parameters(self.model), spec.optimiser, self.settings.steps, attempt.precision_of(self.model)
        )
        self.accumulation = Accumulation(attempt, self.updates)
        self.acting = ActingHash(loaded)
        self.model.eval()
        self.guard = open_guard(attempt, loaded, data, self.updates, self._act)

    def learn(self) -> Outcome:
        return learn_guarded(
            self.attempt,
            self.updates,
            self._take_step,
            "learning from episodes (GRPO)",
            tasks=len(self.tasks),
            guard=self.guard,
            kept=self.order.kept,
        )

    def _act(self, tasks: Sequence[Task], step: int) -> list[Episode]:
        return roll_out(self.score, [(task, task.seed) for task in tasks])

    def _probe(self) -> dict[str, float]:
        """By template, the share of episodes that the weights as they are solve."""
        firsts: dict[str, Task] = {}
        for task in self.tasks:
            firsts.setdefault(task.group, task)
        asked = [(task, seed) for task in firsts.values() for seed in range(PROBED)]
        return _solved_by_group(roll_out(self.score, asked))

    def _take_step(self, step: int) -> Metrics:
        tasks = [self.tasks[place] for place in self.order.at(step)]
        acted = self.acting.find()
        rolled: dict[int, list[Episode]] = {}

        def share_of(part: Sequence[int]) -> tuple[Tensor, Metrics]:
            first, count = self.attempt.spec.seed * 1_000_003 + step * self.settings.group, self.settings.group
            asked = [(tasks[place], first + number) for place in part for number in range(count)]
            episodes = roll_out(self.score, asked, acted, self.judge)
            groups = [episodes[at : at + count] for at in range(0, len(episodes), count)]
            rolled.update(zip(part, groups, strict=True))
            return self._share(groups, len(tasks) * count)

        metrics = self.accumulation.update(len(tasks), share_of)
        found = self.attempt.processes.gather([one for place in sorted(rolled) for one in rolled[place]])
        if all(one.fault is not None for one in found):
            raise NothingToLearn(f"every episode of step {step + 1} failed; the first: {found[0].fault}")
        keep_episodes(self.attempt, step + 1, found)
        told = {**metrics, **_measure(found), **self.order.note(_solved_by_group(found))}
        if self.guard is not None:
            size = self.settings.group
            groups = [found[at : at + size] for at in range(0, len(found), size)]
            told |= self.guard.note(step + 1, groups)
        return told

    def _share(self, groups: Sequence[Sequence[Episode]], count: int) -> tuple[Tensor, Metrics]:
        """The groups' share of a loss over `count` episodes."""
        self.refuse_foreign(one for group in groups for one in group)
        taken = sorted((one for group in groups for one in self.credit(group)), key=lambda one: len(one.step.state))
        if not taken:
            # Nothing to tell apart: no gradient, but every weight keeps its place in the sum of all processes.
            nothing = sum((p.sum() for p in self.updates.parameters.values()), torch.zeros(())) * 0.0
            return nothing, {"loss": nothing.detach()}
        told: dict[str, Tensor] = {}
        size = self.accumulation.part  # fewer where the memory ran out
        for start in range(0, len(taken), size):
            some = range(start, min(start + size, len(taken)))
            loss, metrics = self._loss_of([taken[place] for place in some], some, len(taken), count)
            for name, value in metrics.items():
                told[name] = told[name] + value if name in told else value
            if some.stop < len(taken):
                self.updates.backward(loss)
        return loss, told

    def _loss_of(self, taken: Sequence[Taken], part: range, whole: int, count: int) -> tuple[Tensor, Metrics]:
        """The share of these steps, the `part` of `whole`, in a loss over `count` episodes."""
        weights = torch.tensor([one.advantage for one in taken], device=self.attempt.device)
        places = torch.tensor([one.place for one in taken], device=self.attempt.device)
        old = torch.tensor([one.step.log_p for one in taken], device=self.attempt.device)
        prompts = self.scorer.encode([one.step.state for one in taken])
        options = [one.step.options for one in taken]
        share = len(taken) / count
        with self.attempt.autocast(self.model):
            log_p = self.scorer.log_probabilities(self.model, prompts, options)
            text = torch.zeros((), device=log_p.device)
            if (weight := self.attempt.spec.weight_of_text) > 0:
                text = text_share(self.model, self.scorer, prompts, options, places.tolist(), part, whole)
        surrogate = clipped_surrogate(log_p.gather(1, places[:, None])[:, 0], old, weights, self.settings.clip)
        kl = self._kl(log_p, prompts, options)
        loss = share * (surrogate + self.settings.kl_of_fresh * kl) + weight * text
        told = {"loss": loss.detach(), "kl": share * kl.detach()}
        return loss, told if weight == 0 else told | {"text_loss": text.detach()}

    def refuse_foreign(self, episodes: Iterator[Episode]) -> None:
        """Raises ForeignTrajectories unless the weights as they are now made them all."""
        now = self.acting.find()
        for episode in episodes:
            if episode.weights_hash != now:
                raise ForeignTrajectories(f"task {episode.task}: made by weights {episode.weights_hash}, not by {now}")

    def credit(self, group: Sequence[Episode]) -> Iterator[Taken]:
        """The group's steps that teach something."""
        sound = [one for one in group if one.fault is None]
        if not sound:
            return
        most = find_environment(sound[0].environment).most_reward
        worth = advantages(sound, self.settings.credit, gamma=self.settings.gamma, most_reward=most)
        for episode, values in zip(sound, worth, strict=True):
            for step, advantage in zip(episode.trajectory, values, strict=True):
                if advantage != 0.0 and len(step.options) > 1:
                    yield Taken(step, step.options.index(step.action), advantage)

    def _kl(self, log_p: Tensor, prompts: Sequence[Sequence[int]], options: Sequence[Sequence[str]]) -> Tensor:
        if self.start is None:
            return torch.zeros((), device=log_p.device)
        with torch.no_grad(), self.start() as model, self.attempt.autocast(model):
            began = self.scorer.log_probabilities(model, prompts, options)
        return divergence(log_p, began).mean()


def starting_policy(loaded: Loaded, *, fresh: bool) -> Callable[[], AbstractContextManager[nn.Module]]:
    """What gives the policy that the run began with: the base under a `fresh` adapter, else a frozen copy."""
    if loaded.adapts and fresh:
        return partial(_without_adapter, loaded.model)
    frozen: nn.Module = copy.deepcopy(loaded.model).requires_grad_(False).eval()
    return lambda: nullcontext(frozen)


@contextmanager
def _without_adapter(model: Any) -> Iterator[nn.Module]:
    with model.disable_adapter():
        yield model


def _solved_by_group(episodes: Sequence[Episode]) -> dict[str, float]:
    told: defaultdict[str, list[bool]] = defaultdict(list)
    for one in episodes:
        if one.fault is None:
            told[one.group].append(one.success)
    return {group: sum(values) / len(values) for group, values in told.items()}


def _measure(episodes: Sequence[Episode]) -> Metrics:
    """Means over the episodes without a fault, and the share of those with one."""
    sound = [one for one in episodes if one.fault is None]
    told = {
        "reward": sum(one.reward_share for one in sound),
        "solved": sum(one.success for one in sound),
        "score": sum(one.score for one in sound),
        "steps_taken": sum(one.steps for one in sound),
    }
    means = {name: torch.tensor(value / len(sound)) for name, value in told.items()}
    return means | {"faults": torch.tensor(1 - len(sound) / len(episodes))}
