"""All-action policy gradient on a doubly robust estimate of every option's reward. Method `all_action`.

A log tells the reward r of the one action a that was taken. What an option a' would have earned is estimated by a model
of the feedback, q̂(x, a') = η + (1 − 2η) q(a' | x), corrected where the log knows better (Dudík, Langford and Li 2011):

    R(x, a') = q̂(x, a') + [a' = a] · min(1 / μ(a | x), cap) · (r − q̂(x, a))

q is the cross-fitted P(a' is right) of training.engine.methods.direct_method, and μ the logged propensity. Without the
cap, R is unbiased whatever q is. The scorer has π of all options, so the expectation over actions is exact and not
sampled (Ciosek and Whiteson 2020, "Expected policy gradients"):

    loss = − 1/n Σ_i Σ_a' π(a' | x_i) R(x_i, a')  +  β KL(π ‖ π_start)

The divergence is exact, too. Labelled rows of `data.replay` have R = 1 for their answer and 0 for the others.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import RunData
from training.engine.methods.direct_method import guess_right, what_acted
from training.engine.methods.offline import Decisions
from training.engine.models.actions import Scores
from training.engine.models.loading import Loaded
from training.engine.scoring.rows import divergence
from training.engine.updates.fit import Metrics, kept_from


def doubly_robust(q: Tensor, action: Tensor, reward: Tensor, propensity: Tensor, noise: float, cap: float) -> Tensor:
    """R: q (n, K) in [0, 1], action (n,), reward (n,) in [0, 1], propensity (n,) in (0, 1] → (n, K)."""
    expected = noise + (1 - 2 * noise) * q
    surprise = reward - expected.gather(1, action[:, None])[:, 0]
    correction = (1 / propensity).clamp(max=cap) * surprise
    return expected.scatter_add(1, action[:, None], correction[:, None])


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place on logged rows with a reward, and on replayed labelled rows."""
    settings = attempt.spec.all_action
    decisions = Decisions(attempt, loaded, [row for row in data.logged if row.reward is not None], data.replay)
    start = decisions.score()
    estimated = kept_from(attempt, "rewards")
    if estimated is None:
        reward = torch.tensor([row.reward or 0.0 for row in decisions.rows])
        propensity = torch.tensor([row.propensity or 1.0 for row in decisions.rows])
        q = guess_right(decisions, reward, what_acted(decisions, start), settings)
        actions = decisions.actions.cpu()
        estimated = doubly_robust(q, actions, reward, propensity, settings.feedback_noise, settings.weight_cap)
        known = actions[decisions.logged :]
        estimated[decisions.logged :] = nn.functional.one_hot(known, estimated.shape[1]).float()
    on_device = estimated.to(attempt.device)

    def loss_of(batch: list[int], scores: Scores) -> Metrics:
        expected = (scores.log_p.exp() * on_device[batch, : scores.log_p.shape[1]]).sum(1).mean()
        kl = divergence(scores.log_p, start[batch]).mean()
        return {"loss": settings.kl * kl - expected, "kl": kl, "expected_reward": expected}

    return decisions.learn(loss_of, "learning from estimated rewards", kept={"rewards": estimated})
