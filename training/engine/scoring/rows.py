"""Scoring many rows without gradients, and the distance from such scores: shared by the evaluation and by methods that
stay near the starting policy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from training.engine.attempt.attempt import Attempt
from training.engine.attempt.memory import score_in_batches
from training.engine.models.actions import NO_OPTION, ActionScorer
from training.engine.spec.run_spec import Serving

BATCH = 256


@torch.no_grad()
def score_rows(
    attempt: Attempt,
    model: nn.Module,
    scorer: ActionScorer,
    prompts: Sequence[Sequence[int]],
    options: Sequence[Sequence[str]],
    batch_size: int = BATCH,
) -> Tensor:
    """(n, K) log-probabilities, K the largest number of options, NO_OPTION beyond a row's own.

    Leaves the model in eval mode. Raises Stopped between batches when asked to stop.
    """
    model.eval()
    width = max(len(row) for row in options)
    log_p = torch.full((len(prompts), width), NO_OPTION, device=attempt.device)

    def score(batch: list[int]) -> None:
        with attempt.autocast(model):
            part = scorer.log_probabilities(model, [prompts[i] for i in batch], [options[i] for i in batch])
        log_p[torch.tensor(batch, device=attempt.device), : part.shape[1]] = part

    score_in_batches(attempt, [len(ids) for ids in prompts], batch_size, score)
    return log_p


def divergence(log_p: Tensor, start: Tensor) -> Tensor:
    """KL(π ‖ π_start) = Σ_a π(a) log(π(a) / π_start(a)) of each row, exactly.

    (B, K) and (B, ≥ K) log-probabilities → (B,).
    """
    known = log_p > NO_OPTION
    return (log_p.exp() * (log_p - start[:, : log_p.shape[1]]) * known).sum(1)


def serving_probabilities(log_p: Tensor, offered: Tensor, serving: Serving) -> Tensor:
    """(n, K) log-probabilities, (n,) numbers of options → the acting policy: (1 − ε) · p^(1/τ) / Σ p^(1/τ) + ε / K,
    within the budget as `decisions.gateway.exploration` has it.

    Columns beyond a row's own options are 0.
    """
    inside = torch.arange(log_p.shape[1])[None] < offered[:, None]
    sharpened = (log_p / serving.temperature).masked_fill(~inside, float("-inf")).softmax(-1)
    policy = (1 - serving.epsilon) * sharpened + serving.epsilon * inside / offered[:, None]
    if serving.exploration_budget is None:
        return policy
    p = log_p.masked_fill(~inside, float("-inf")).softmax(-1)
    loss = p.amax(-1) - (policy * p).sum(-1)
    share = (serving.exploration_budget / 1000 / loss.clamp(min=1e-12)).clamp(max=1.0)[:, None]
    return share * policy + (1 - share) * nn.functional.one_hot(p.argmax(-1), p.shape[1])
