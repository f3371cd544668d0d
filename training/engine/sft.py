"""Pretraining: a model learns the task from labelled rows, then learns how sure it may be. Method `pretrain`.

Loss for a row with prompt x and right option y (tokens y_1 … y_n, the last one end of sequence):

    − log π(y | x)  −  w · 1/n Σ_t log p(y_t | x, y_<t),      w: the spec's text_weight, 1 by default

π is constrained to the options (training.engine.actions) and is what decides; p is the plain language model,
so that free generation gives an option as well. Both come from one teacher-forced forward: π branches
only where y itself passes.

Calibration (Guo et al. 2017): a share of the rows, a fifth by default, is never trained on; the temperature that
minimises their − log π is divided into the final norm's weight. The model is then calibrated by its weights alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from training.engine.actions import ActionScorer, causal_of
from training.engine.answers import answer_logits
from training.engine.attempt import Attempt, Outcome
from training.engine.data import Batches, RunData, by_length, drop_tokens
from training.engine.fit import Metrics, Updates, fit
from training.engine.hardware import autocast
from training.engine.models import Loaded, trainable_parameters
from training.engine.rows import Labelled

TEMPERATURES = torch.logspace(-1, 1, 81).tolist()
EXACT = 1e-3


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains every weight of `loaded` in place on most of the rows and calibrates on those it kept back."""
    spec, rows = attempt.spec, data.labelled
    scorer = ActionScorer(loaded.tokenizer, spec.max_prompt_tokens, attempt.device)
    shuffled = random.Random(f"{spec.seed}/held").sample(rows, len(rows))  # noqa: S311 - a split, not a secret
    kept_back = int(len(rows) * spec.pretrain.calibration_share)
    held, learned = shuffled[:kept_back], shuffled[kept_back:]
    prompts = scorer.encode([row.prompt for row in learned])
    batches = Batches([len(ids) for ids in prompts], spec.optimiser.batch_size, spec.seed)
    total = batches.per_epoch * spec.optimiser.epochs
    updates = Updates(trainable_parameters(loaded.model), spec.optimiser, total)
    head, tail = scorer.prompts.head, scorer.prompts.tail

    def take_step(step: int) -> Metrics:
        chosen = batches.at(step)
        rng = random.Random(f"{spec.seed}/drop/{step}")  # noqa: S311
        ids = [drop_tokens(prompts[i], head, tail, spec.optimiser.token_dropout, rng) for i in chosen]
        with autocast(attempt.device):
            choice, text = answer_losses(loaded.model, scorer, ids, [learned[i] for i in chosen])
        loss = choice + spec.weight_of_text * text
        updates.apply(loss)
        return {"loss": loss.detach(), "choice_loss": choice.detach(), "text_loss": text.detach()}

    loaded.model.train()
    metrics = fit(attempt, updates, total, take_step, "learning from labelled rows")
    loaded.model.eval()
    if spec.pretrain.calibration_share > 0:
        metrics = metrics | {"temperature": calibrate(attempt, loaded.model, scorer, held)}
    return Outcome(total, len(rows), metrics)


def answer_losses(
    model: nn.Module, scorer: ActionScorer, prompts: Sequence[Sequence[int]], rows: Sequence[Labelled]
) -> tuple[Tensor, Tensor]:
    """(− log π of the answers, mean over rows; cross-entropy of their tokens, mean over tokens)."""
    device = scorer.device
    answers = scorer.answer_ids([row.answer for row in rows])
    logits, targets = answer_logits(model, scorer, prompts, answers)
    text = nn.functional.cross_entropy(logits, targets)
    # Of all answer positions, those where other options part from this answer, with the tokens allowed there.
    position, children, start = [], [], 0
    for row, answer in zip(rows, answers, strict=True):
        trie = scorer.trie(row.options)
        for depth, tokens in trie.branchings[sorted(row.options).index(row.answer)]:
            position.append(start + depth)
            children.append(tokens)
        start += len(answer)
    if not position:  # every row offered a single option
        return 0.0 * text, text
    at = torch.tensor(position, device=device)
    allowed = torch.zeros(len(position), logits.shape[1], dtype=torch.bool, device=device)
    which = torch.tensor([i for i, tokens in enumerate(children) for _ in tokens], device=device)
    allowed[which, torch.tensor([token for tokens in children for token in tokens], device=device)] = True
    constrained = logits[at].masked_fill(~allowed, float("-inf"))
    choice = nn.functional.cross_entropy(constrained, targets[at], reduction="sum") / len(rows)
    return choice, text


@torch.no_grad()
def calibrate(attempt: Attempt, model: nn.Module, scorer: ActionScorer, held: Sequence[Labelled]) -> float:
    """Divides the best temperature on `held` into the final norm's weight; returns it, or 1 where that is not exact."""
    if not held:
        attempt.events.warn("too few labelled rows to calibrate on")
        return 1.0
    prompts = scorer.encode([row.prompt for row in held])
    losses = torch.zeros(len(TEMPERATURES), device=attempt.device)
    for batch in by_length([len(ids) for ids in prompts], attempt.spec.optimiser.batch_size):
        attempt.stop.check()
        options = [held[i].options for i in batch]
        right = torch.tensor([held[i].options.index(held[i].answer) for i in batch], device=attempt.device)
        states = scorer.states(model, [prompts[i] for i in batch], options)
        for index, temperature in enumerate(TEMPERATURES):
            log_p = scorer.read(model, states / temperature, options)
            losses[index] += nn.functional.nll_loss(log_p, right, reduction="sum")
    best = float(TEMPERATURES[int(losses.argmin())])
    sample = prompts[:8], [row.options for row in held[:8]]
    wanted = scorer.read(model, scorer.states(model, *sample) / best, sample[1])
    norm = _final_norm(model)
    if norm is None:
        attempt.events.warn("the model has no final norm to calibrate through")
        return 1.0
    before = norm.weight.clone()
    norm.weight.div_(best)
    # A norm that adds 1 to its weight, or a head with a bias, would not scale its logits by this.
    if (scorer.log_probabilities(model, *sample) - wanted).abs().max() > EXACT:
        norm.weight.copy_(before)
        attempt.events.warn("the model's final norm does not scale its logits, it was left uncalibrated")
        return 1.0
    return best


def _final_norm(model: nn.Module) -> Any:
    causal = causal_of(model)
    norm = getattr(getattr(causal, causal.base_model_prefix), "norm", None)
    return norm if isinstance(getattr(norm, "weight", None), Tensor) else None
