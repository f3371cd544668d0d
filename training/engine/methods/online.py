"""Fresh decisions by the weights in training, and their rewards: what `grpo` and `ppo` share where they act.

A trajectory carries the hash of the weights that made it. Trajectories of other weights are refused, because their
probabilities would not be those of the policy that is updated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from decisions.rewards.components import Facts
from training.engine.attempt.attempt import Attempt
from training.engine.data.reading import Batches
from training.engine.methods.curriculum import Order
from training.engine.methods.learned_reward import LearnedReward
from training.engine.models.actions import ActionScorer, Scores, draw_options
from training.engine.models.loading import hash_tensors
from training.engine.rows.types import Labelled, Logged, prompts_of
from training.engine.scoring.rows import divergence, score_rows
from training.engine.spec.reward_function import RewardFunction
from training.engine.updates.accumulate import Accumulation, ShareOf
from training.engine.updates.answers import text_share
from training.engine.updates.fit import Metrics, Updates, kept_from


class ForeignTrajectories(ValueError):
    """The trajectories were made by other weights than those to be updated."""


@dataclass(frozen=True, slots=True)
class Trajectories:
    """One batch of fresh decisions: G actions for each of B prompts, every decision an episode of its own.

    `rows` (B,) numbers of the prompts; `actions`, `log_p`, `rewards` (B, G): the option drawn, its
    log-probability when it was drawn, and what it earned.
    """

    rows: list[int]
    actions: Tensor
    log_p: Tensor
    rewards: Tensor
    weights_hash: str


class Made(NamedTuple):
    """A fresh decision: the number of its row, the place of the action among the row's options, and its probability
    when it was drawn."""

    row: int
    place: int
    chance: float


Pay = Callable[[Sequence[Made]], list[float]]
"""What fresh decisions earn."""


class Rewarded:
    """Pays by the spec's reward function, and by the reward model that it may name."""

    def __init__(self, attempt: Attempt, rows: Sequence[Labelled]) -> None:
        self.rows = rows
        self.asked = prompts_of(rows)
        self.reward = RewardFunction(attempt.spec.reward)
        self.learned_reward = LearnedReward(attempt, self.reward)

    def __call__(self, made: Sequence[Made]) -> list[float]:
        actions = [self.rows[one.row].options[one.place] for one in made]
        learned = self.learned_reward(
            [(self.asked[one.row], action) for one, action in zip(made, actions, strict=True)]
        )
        return [
            self._reward(self.rows[one.row], action, one.chance, value)
            for one, action, value in zip(made, actions, learned, strict=True)
        ]

    def _reward(self, row: Labelled, action: str, confidence: float, learned: float | None) -> float:
        confidence = min(confidence, 1.0)  # an exponential may round above 1
        return self.reward(Facts(action=action, answer=row.answer, confidence=confidence), learned)


class Actor:
    """The policy in training: scores prompts, draws actions, and knows the hash of its weights. `pay` values its
    actions; labelled rows are paid by the spec's reward where it is not given."""

    def __init__(
        self,
        attempt: Attempt,
        model: nn.Module,
        scorer: ActionScorer,
        rows: Sequence[Labelled] | Sequence[Logged],
        pay: Pay | None = None,
    ) -> None:
        self.attempt = attempt
        self.model = model
        self.scorer = scorer
        self.rows = rows
        self.prompts = scorer.encode(prompts_of(rows))
        labelled = [row for row in rows if isinstance(row, Labelled)]
        self.answers = torch.tensor([row.options.index(row.answer) for row in labelled], device=attempt.device)
        self.pay = pay if pay is not None else Rewarded(attempt, labelled)
        self._hash: str | None = None
        self._parameters: Mapping[str, Tensor] = {}

    def follow(self, updates: Updates) -> None:
        """The weights whose changes make the hash a new one."""
        self._parameters = updates.parameters
        self._hash = None

    @property
    def weights_hash(self) -> str:
        """Hash of the trained weights as they are now; calculated once between two updates."""
        if self._hash is None:
            self._hash = hash_tensors(self._parameters)
        return self._hash

    def learn(self, accumulation: Accumulation, count: int, share_of: ShareOf) -> Metrics:
        """One update from `count` prompts. What was drawn before it is foreign from now on."""
        metrics = accumulation.update(count, share_of)
        self._hash = None
        return metrics

    def score(self, rows: Sequence[int]) -> Scores:
        with self.attempt.autocast(self.model):
            return self.scorer.score(self.model, [self.prompts[i] for i in rows], [self.rows[i].options for i in rows])

    def success(self, rows: Sequence[int], log_p: Tensor) -> Tensor:
        """π(answer | x) of each row; (B, K) log-probabilities → (B,)."""
        return log_p.detach().gather(1, self.answers[list(rows), None])[:, 0].exp()

    def text_share(self, rows: Sequence[int], drawn: Sequence[int], part: Sequence[int], count: int) -> Tensor:
        """Keeps free generation valid along drawn actions. `drawn` (B,) are the options drawn for `rows`, which stand
        at the places `part` of an update of `count`."""
        with self.attempt.autocast(self.model):
            prompts, options = [self.prompts[i] for i in rows], [self.rows[i].options for i in rows]
            return text_share(self.model, self.scorer, prompts, options, drawn, part, count)

    def draw(self, rows: list[int], log_p: Tensor, chance: Tensor) -> Trajectories:
        """An action for each row and each of its numbers in `chance` (B, G), by exp(`log_p`) (B, K), scored by this
        actor's present weights."""
        log_p = log_p.detach()
        actions = draw_options(log_p, chance)
        taken = log_p.gather(1, actions)
        made = [
            Made(i, place, chance)
            for i, places, chances in zip(rows, actions.tolist(), taken.exp().tolist(), strict=True)
            for place, chance in zip(places, chances, strict=True)
        ]
        rewards = self.pay(made)
        return Trajectories(
            rows,
            actions,
            taken,
            torch.tensor(rewards, device=log_p.device).view_as(actions),
            self.weights_hash,
        )

    def refuse_foreign(self, trajectories: Trajectories) -> None:
        """Raises ForeignTrajectories unless they were made by the weights as they are now."""
        if trajectories.weights_hash != self.weights_hash:
            raise ForeignTrajectories(f"made by weights {trajectories.weights_hash}, not by {self.weights_hash}")


class Start:
    """The starting policy, to which an exact Kullback–Leibler divergence is kept small. `success` of labelled rows."""

    def __init__(self, attempt: Attempt, actor: Actor, visited: Iterable[int]) -> None:
        """Scores every row that may be visited, once. Call before the weights change or are restored."""
        rows = sorted(visited)
        self._place = {row: place for place, row in enumerate(rows)}
        self._log_p = score_rows(
            attempt,
            actor.model,
            actor.scorer,
            [actor.prompts[row] for row in rows],
            [actor.rows[row].options for row in rows],
        )
        self.success = actor.success(rows, self._log_p) if len(actor.answers) else None

    def kl(self, rows: Sequence[int], log_p: Tensor) -> Tensor:
        """KL(π ‖ π_start), mean over the rows; `log_p` (B, K) of π."""
        return divergence(log_p, self._log_p[[self._place[row] for row in rows]]).mean()


class Visits:
    """The prompts of each step: in random order, epoch by epoch, or by the spec's curriculum.

    `start` is the starting policy on all of them; `kept` belongs into the checkpoint.
    """

    def __init__(self, attempt: Attempt, actor: Actor, epochs: int | None = None) -> None:
        """`epochs`: passes over all prompts, in the place of the spec's steps. Call before the weights change or are
        restored."""
        spec, settings = attempt.spec, attempt.spec.online
        self._batches = Batches([len(ids) for ids in actor.prompts], settings.prompts_per_step, spec.seed)
        self.steps = settings.steps if epochs is None else epochs * self._batches.per_epoch
        self._order: Order | None = None
        self.kept: Mapping[str, Tensor] = {}
        if settings.curriculum is None:
            visited = {row for step in range(self.steps) for row in self._batches.at(step)}
            self.start = Start(attempt, actor, visited)
            return
        self.start = Start(attempt, actor, range(len(actor.rows)))
        assert self.start.success is not None
        self._order = Order(
            settings.curriculum,
            self.start.success.cpu(),
            batch_size=settings.prompts_per_step,
            group=settings.group if spec.method == "grpo" else 2,
            steps=self.steps,
            seed=spec.seed,
        )
        self.kept = self._order.state
        for name, value in self.kept.items():
            if (earlier := kept_from(attempt, name)) is not None:
                value.copy_(earlier)

    def at(self, step: int) -> list[int]:
        """Numbers of the step's prompts."""
        return self._batches.at(step) if self._order is None else self._order.at(step)

    @property
    def follow_success(self) -> bool:
        """Whether a curriculum wants to know it."""
        return self._order is not None

    def note(self, rows: list[int], success: Tensor) -> Metrics:
        """What the curriculum learns of these prompts, and reports; `success` (B,) as the actor says."""
        return {} if self._order is None else self._order.note(rows, success.cpu())


def clipped_surrogate(log_p: Tensor, old_log_p: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """− mean min(ρ A, clip(ρ, 1 − ε, 1 + ε) A) with ρ = exp(log_p − old_log_p) (Schulman et al. 2017, eq. 7)."""
    ratio = (log_p - old_log_p).exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage).mean()
