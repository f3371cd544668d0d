"""Learning from what was tried: targets are the posterior over the right option. Method `posterior`.

For a logged action a with feedback r, and q(a') the direct method's P(a' is right | x):

    target(a') ∝ q(a') · P(r | a' is right)
    P(r = 1 | a' is right) = 1 − η if a' = a, else η          P(r = 0 | ·) = 1 − P(r = 1 | ·)

and a soft reward mixes the two: P(r | ·) = r · P(1 | ·) + (1 − r) · P(0 | ·). The loss is the cross-entropy
− Σ_a' target(a') log π(a' | x): one step of expectation maximisation on the likelihood of the feedback
(Dempster, Laird and Rubin 1977). There are no importance weights; propensities are not used. Labelled rows of
`data.replay` have their answer as target.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from training.engine.actions import ActionScorer
from training.engine.answers import text_loss
from training.engine.attempt import Attempt, Outcome
from training.engine.data import Batches, RunData, drop_tokens
from training.engine.fit import Metrics, Updates, fit, kept_from
from training.engine.hardware import autocast
from training.engine.models import Loaded, trainable_parameters
from training.engine.reward_model import MAX_COLUMNS, Feedback, bag_features, cross_fit, option_columns
from training.engine.rows import Logged, right_or_wrong
from training.engine.scoring import score_rows

LOGGED_FLOOR = 1e-6
FLOOR = 1e-4
"""Least probability q gives to an offered option: feedback must be able to overrule it."""


def posterior_targets(q: Tensor, offered: Tensor, action: Tensor, reward: Tensor, noise: float) -> Tensor:
    """q (n, K), offered (n, K), action (n,), reward (n,) in [0, 1], noise η → targets (n, K), rows sum to 1."""
    reward = reward[:, None]
    of_others = reward * noise + (1 - reward) * (1 - noise)
    of_action = reward * (1 - noise) + (1 - reward) * noise
    likelihood = of_others.expand_as(q).scatter(1, action[:, None], of_action)
    weighted = q.clamp(min=FLOOR) * likelihood * offered
    return weighted / weighted.sum(1, keepdim=True)


def take_logged_probabilities(log_p: Tensor, rows: Sequence[Logged]) -> None:
    """Writes what the deciding model thought over the base's guess (n, K): often better, and it had not seen the row.

    `rows` are the first of the n; K is at least the number of their options. Rows without it keep the base's guess.
    """
    for place, row in enumerate(rows):
        if row.probabilities is not None:
            log_p[place, : len(row.probabilities)] = torch.tensor(row.probabilities).clamp(min=LOGGED_FLOOR).log()


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place on logged rows that say what was right, and on replayed labelled rows."""
    spec, replay = attempt.spec, data.replay
    told = right_or_wrong(data.logged)
    rows = [row for row, _ in told]
    options = [row.options for row in rows] + [row.options for row in replay]
    chosen = [row.options.index(row.action) for row in rows] + [row.options.index(row.answer) for row in replay]
    rewards = [right for _, right in told] + [1.0] * len(replay)
    scorer = ActionScorer(loaded.tokenizer, spec.max_prompt_tokens, attempt.device)
    prompts = scorer.encode([row.prompt for row in rows] + [row.prompt for row in replay])
    targets = kept_from(attempt, "targets")
    if targets is None:
        attempt.events.progress(0, 1, "fitting the reward model")
        base_log_p = score_rows(attempt, loaded.model, scorer, prompts, options).cpu()
        take_logged_probabilities(base_log_p, rows)
        columns, offered, width = option_columns(options, base_log_p.shape[1])
        feedback = Feedback(columns, offered, torch.tensor(chosen), torch.tensor(rewards), base_log_p)
        if width > MAX_COLUMNS:
            attempt.events.warn(f"over {MAX_COLUMNS} distinct options: the rare ones share the reward model's weights")
        q = cross_fit(
            bag_features([scorer.prompts.content(ids) for ids in prompts]),
            feedback,
            width,
            noise=spec.posterior.feedback_noise,
            folds=spec.posterior.folds,
            epochs=spec.posterior.epochs,
            seed=spec.seed,
            stop=attempt.stop,
        )
        targets = posterior_targets(q, offered, feedback.action, feedback.reward, spec.posterior.feedback_noise)
        answers = torch.tensor(chosen[len(rows) :], dtype=torch.long)
        targets[len(rows) :] = torch.nn.functional.one_hot(answers, targets.shape[1]).float()
    batches = Batches([len(ids) for ids in prompts], spec.optimiser.batch_size, spec.seed)
    total = batches.per_epoch * spec.optimiser.epochs
    updates = Updates(trainable_parameters(loaded.model), spec.optimiser, total)
    on_device = targets.to(attempt.device)
    likeliest = targets.argmax(1)
    head, tail = scorer.prompts.head, scorer.prompts.tail

    def take_step(step: int) -> Metrics:
        batch = batches.at(step)
        rng = random.Random(f"{spec.seed}/drop/{step}")  # noqa: S311 - augmentation, not a secret
        ids = [drop_tokens(prompts[i], head, tail, spec.optimiser.token_dropout, rng) for i in batch]
        with autocast(attempt.device):
            log_p = scorer.log_probabilities(loaded.model, ids, [options[i] for i in batch])
            text = text_loss(loaded.model, scorer, ids, [options[i] for i in batch], likeliest[batch].tolist())
        loss = -(on_device[batch, : log_p.shape[1]] * log_p).sum(1).mean()
        updates.apply(loss + spec.weight_of_text * text)
        return {"loss": loss.detach(), "text_loss": text.detach()}

    loaded.model.train()
    metrics = fit(attempt, updates, total, take_step, "learning from the posterior", {"targets": targets})
    loaded.model.eval()
    sure = float(targets.max(1).values.mean())
    return Outcome(total, len(prompts), metrics | {"target_certainty": sure})
