"""Learning from what was tried: targets are the posterior over the right option. Method `posterior`.

For a logged action a with feedback r, and q(a') the direct method's P(a' is right | x):

    target(a') ∝ q(a') · P(r | a' is right)
    P(r = 1 | a' is right) = 1 − η if a' = a, else η          P(r = 0 | ·) = 1 − P(r = 1 | ·)

and a soft reward mixes the two: P(r | ·) = r · P(1 | ·) + (1 − r) · P(0 | ·). The loss is the cross-entropy
− Σ_a' target(a') log π(a' | x): one step of expectation maximisation on the likelihood of the feedback
(Dempster, Laird and Rubin 1977). There are no importance weights; propensities are not used. Labelled rows of
`data.replay` have their answer as target, and decisions that nobody judged have q.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence

import torch
from torch import Tensor, nn

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import RunData
from training.engine.methods.direct_method import guess_right, what_acted
from training.engine.methods.offline import Decisions
from training.engine.models.actions import Scores
from training.engine.models.loading import Loaded
from training.engine.rows.types import Logged, right_or_wrong
from training.engine.updates.fit import Metrics, kept_from

FLOOR = 1e-4
"""Least probability q gives to an offered option: feedback must be able to overrule it."""


def posterior_targets(q: Tensor, offered: Tensor, action: Tensor, reward: Tensor, noise: float) -> Tensor:
    """q (n, K), offered (n, K), action (n,), reward (n,) in [0, 1] or NaN if unknown, noise η → targets (n, K).
    The rows of these sum to 1."""
    reward = reward[:, None].nan_to_num(0.5)  # which leaves q as it is
    of_others = reward * noise + (1 - reward) * (1 - noise)
    of_action = reward * (1 - noise) + (1 - reward) * noise
    likelihood = of_others.expand_as(q).scatter(1, action[:, None], of_action)
    weighted = q.clamp(min=FLOOR) * likelihood * offered
    return weighted / weighted.sum(1, keepdim=True)


def find_unjudged(logged: Sequence[Logged], judged: Collection[str], most: int, seed: int) -> list[Logged]:
    """Rows whose ids are not among `judged`; `most` of them, at random, where there are more."""
    rows = [row for row in logged if row.id not in judged]
    return rows if len(rows) <= most else random.Random(f"{seed}/unjudged").sample(rows, most)  # noqa: S311 - a sample


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place on logged rows that say what was right, on some that do not, and on replayed labelled
    rows."""
    settings, told = attempt.spec.posterior, right_or_wrong(data.logged)
    most = int(settings.unjudged * (len(told) + len(data.replay)))
    silent = find_unjudged(data.logged, {row.id for row, _ in told}, most, attempt.spec.seed)
    told += [(row, math.nan) for row in silent]
    decisions = Decisions(attempt, loaded, [row for row, _ in told], data.replay)
    targets = kept_from(attempt, "targets")
    if targets is None:
        right = torch.tensor([value for _, value in told] + [1.0] * len(data.replay))
        q, actions = guess_right(decisions, right, what_acted(decisions), settings), decisions.actions.cpu()
        targets = posterior_targets(q, decisions.offered, actions, right, settings.feedback_noise)
        targets[len(told) :] = nn.functional.one_hot(actions[len(told) :], targets.shape[1]).float()
    on_device = targets.to(attempt.device)

    def loss_of(batch: list[int], scores: Scores) -> Metrics:
        return {"loss": -(on_device[batch, : scores.log_p.shape[1]] * scores.log_p).sum(1).mean()}

    outcome = decisions.learn(loss_of, "learning from the posterior", kept={"targets": targets})
    return outcome.also(target_certainty=float(targets.max(1).values.mean()))
