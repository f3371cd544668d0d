"""Reward-weighted likelihood of what was tried. Method `reward_weighted`.

    loss = − 1/n Σ_i w_i log π(a_i | x_i) / mean(w) + β KL(π ‖ π_start),      w_i = min(r_i / propensity_i, cap)

An importance-weighted form of reward-weighted regression (Peters and Schaal 2007): actions that the logging policy
seldom took count for the times it did not take them. The cap trades variance for bias (Ionides 2008); the
divergence, exact over all options, keeps π near the start where the log says nothing. Rows with reward 0 teach nothing
and are left out; labelled rows of `data.replay` count as reward 1, propensity 1. Items of rankings are learnt from
together (training.engine.methods.reward_weighted_rankings).
"""

from __future__ import annotations

import torch

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import RunData
from training.engine.methods import reward_weighted_rankings
from training.engine.methods.offline import Decisions
from training.engine.models.loading import Loaded


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place."""
    if any(row.slate is not None for row in data.logged):
        return reward_weighted_rankings.train(attempt, loaded, data)
    rewarded = [row for row in data.logged if row.reward]
    if not rewarded and not data.replay:
        raise ValueError("no logged row has a reward above 0 to imitate")
    decisions = Decisions(attempt, loaded, rewarded, data.replay)
    importance = [(row.reward or 0.0) / (row.propensity or 1.0) for row in decisions.rows]
    settings = attempt.spec.reward_weighted
    weights = torch.tensor(importance, device=attempt.device).clamp(max=settings.weight_cap)
    outcome = decisions.imitate(weights, "learning from rewarded actions", kl=settings.kl)
    return outcome.also(effective_sample_size=float(weights.sum() ** 2 / (weights**2).sum()))
