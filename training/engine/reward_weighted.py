"""Reward-weighted likelihood of what was tried. Method `reward_weighted`.

    loss = − 1/n Σ_i w_i log π(a_i | x_i) / mean(w),      w_i = min(r_i / propensity_i, cap)

An importance-weighted form of reward-weighted regression (Peters and Schaal 2007): actions that the logging policy
seldom took count for the times it did not take them. The cap trades variance for bias (Ionides 2008). Rows with
reward 0 teach nothing and are left out; labelled rows of `data.replay` count as reward 1, propensity 1.
"""

from __future__ import annotations

import random

import torch

from training.engine.actions import ActionScorer
from training.engine.answers import text_loss
from training.engine.attempt import Attempt, Outcome
from training.engine.data import Batches, RunData, drop_tokens
from training.engine.fit import Metrics, Updates, fit
from training.engine.hardware import autocast
from training.engine.models import Loaded, trainable_parameters


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place."""
    spec, replay = attempt.spec, data.replay
    rows = [row for row in data.logged if row.reward]
    if not rows and not replay:
        raise ValueError("no logged row has a reward above 0 to imitate")
    options = [row.options for row in rows] + [row.options for row in replay]
    chosen = [row.options.index(row.action) for row in rows] + [row.options.index(row.answer) for row in replay]
    importance = [float(row.reward or 0.0) / (row.propensity or 1.0) for row in rows] + [1.0] * len(replay)
    weights = torch.tensor(importance, device=attempt.device).clamp(max=spec.reward_weighted.weight_cap)
    weights = weights / weights.mean()
    actions = torch.tensor(chosen, device=attempt.device)
    scorer = ActionScorer(loaded.tokenizer, spec.max_prompt_tokens, attempt.device)
    prompts = scorer.encode([row.prompt for row in rows] + [row.prompt for row in replay])
    batches = Batches([len(ids) for ids in prompts], spec.optimiser.batch_size, spec.seed)
    total = batches.per_epoch * spec.optimiser.epochs
    updates = Updates(trainable_parameters(loaded.model), spec.optimiser, total)
    head, tail = scorer.prompts.head, scorer.prompts.tail

    def take_step(step: int) -> Metrics:
        batch = batches.at(step)
        rng = random.Random(f"{spec.seed}/drop/{step}")  # noqa: S311 - augmentation, not a secret
        ids = [drop_tokens(prompts[i], head, tail, spec.optimiser.token_dropout, rng) for i in batch]
        with autocast(attempt.device):
            log_p = scorer.log_probabilities(loaded.model, ids, [options[i] for i in batch])
            text = text_loss(loaded.model, scorer, ids, [options[i] for i in batch], [chosen[i] for i in batch])
        loss = -(weights[batch] * log_p.gather(1, actions[batch, None])[:, 0]).mean()
        updates.apply(loss + spec.weight_of_text * text)
        return {"loss": loss.detach(), "text_loss": text.detach()}

    loaded.model.train()
    metrics = fit(attempt, updates, total, take_step, "learning from rewarded actions")
    loaded.model.eval()
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    return Outcome(total, len(prompts), metrics | {"effective_sample_size": effective})
