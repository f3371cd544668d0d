"""Kahneman–Tversky optimisation (Ethayarajh et al. 2024): what was right becomes likelier, what was wrong less likely,
each by how far it is from what is usual. Method `kto`.

For a logged action a that was right or wrong, with z₀ the divergence that the whole batch has from the start:

    h = log π(a | x) − log π_start(a | x)        z₀ = KL(π ‖ π_start), mean over the batch, without gradient
    loss = 1/βn Σ_i λ_i (1 − σ(β (h_i − z₀)))  of right actions,        λ_i (1 − σ(β (z₀ − h_i)))  of wrong ones
           + κ KL(π ‖ π_start)

Divided by β, where the paper does not, the loss has the same slope for every β while π is near the start, and so the
same weight against the loss of texts (training.engine.updates.answers). The scorer has π and π_start of all options, so
both are exact where the paper samples them. The wrong rows together weigh w = `undesirable_weight` times as much as the
right ones, whatever their numbers, and the mean weight is 1, so that no row is lost:

    λ = n / ((1 + w) n_right) of right rows        λ = w n / ((1 + w) n_wrong) of wrong ones

The last term, which the paper has not, holds π near the start on the options that a decision says nothing of: z₀ has no
gradient, and with small logs and many options π would unlearn more than it learns. κ is `kl`. What is reported as the
loss is less that of h = 0 at the same z₀, plus 1/2β, so that it falls as π learns.

With `balance: downsample` the larger class also loses rows, drawn by the seed. Right is what `right`, or the reward
where no row has that, puts at `right_from` or above.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import RunData
from training.engine.methods.offline import Decisions
from training.engine.models.actions import Scores
from training.engine.models.loading import Loaded
from training.engine.rows.types import Logged, right_or_wrong
from training.engine.scoring.rows import divergence
from training.engine.updates.fit import Metrics


def class_weights(right: Tensor, undesirable: float) -> Tensor:
    """(n,) of bool, both classes in it → (n,) weights, whose mean is 1. The wrong rows together weigh `undesirable`
    times as much as the right ones."""
    share, of_right = right.float().mean(), 1 / (1 + undesirable)
    return torch.where(right, of_right / share, (1 - of_right) / (1 - share))


def kto_loss(log_ratio: Tensor, usual: Tensor, right: Tensor, weight: Tensor, beta: float) -> Tensor:
    """h (B,), z₀ 0-d, right (B,) of bool, λ (B,) → 0-d."""
    gain = torch.where(right, log_ratio - usual, usual - log_ratio)
    return (weight * (1 - torch.sigmoid(beta * gain))).mean() / beta


def downsample(told: Sequence[tuple[Logged, float]], right_from: float, *, seed: int) -> list[tuple[Logged, float]]:
    """Of right and of wrong rows as many as there are of the rarer, in their order."""
    classes: dict[bool, list[int]] = {True: [], False: []}
    for place, (_, value) in enumerate(told):
        classes[value >= right_from].append(place)
    count, rng = min(map(len, classes.values())), random.Random(f"{seed}/balance")  # noqa: S311 - a sample, no secret
    kept = sorted(place for places in classes.values() for place in rng.sample(places, count))
    return [told[place] for place in kept]


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place on logged rows that say what was right; replayed rows are right."""
    settings, told = attempt.spec.kto, right_or_wrong(data.logged)
    if settings.balance == "downsample":
        told = downsample(told, settings.right_from, seed=attempt.spec.seed)
    decisions = Decisions(attempt, loaded, [row for row, _ in told], data.replay)
    start = decisions.score()
    values = torch.tensor([value for _, value in told] + [1.0] * len(data.replay), device=attempt.device)
    right = values >= settings.right_from
    weights = class_weights(right, settings.undesirable_weight)
    usual_log_p = start.gather(1, decisions.actions[:, None])[:, 0]

    def loss_of(batch: list[int], scores: Scores) -> Metrics:
        log_ratio = scores.log_p.gather(1, decisions.actions[batch, None])[:, 0] - usual_log_p[batch]
        kl = divergence(scores.log_p, start[batch]).mean()
        of_rows = kl.detach(), right[batch], weights[batch], settings.beta
        # Without what z₀ alone changes, which says nothing of what was learnt and has no gradient.
        loss = kto_loss(log_ratio, *of_rows) - kto_loss(torch.zeros_like(log_ratio), *of_rows) + 0.5 / settings.beta
        return {"loss": loss + settings.kl * kl, "kl": kl}

    outcome = decisions.learn(loss_of, "learning from right and wrong")
    return outcome.also(right_share=float(right.float().mean()))
