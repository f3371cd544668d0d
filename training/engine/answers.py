"""A loss over answers as plain text, which keeps free generation valid while the constrained policy learns.

The other losses see π over the options only, so the probability that unconstrained generation starts and ends an option
could drift. `text_loss` on some answers of each batch prevents that. For answers drawn from π its expected pull on π is
zero, since E[∇ log π(a)] = 0; it only raises the mass that the language model gives to the options.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from training.engine.actions import ActionScorer, Head, causal_of, pad_right

EVERY = 8
"""One row in so many is read as text; a second forward of an eighth of the batch."""


def answer_logits(
    model: nn.Module, scorer: ActionScorer, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]
) -> tuple[Tensor, Tensor]:
    """Teacher-forced logits (P, V) at every answer position, row by row, and the tokens (P,) that stand there."""
    device = scorer.device
    causal = causal_of(model)
    ids, _ = pad_right([[*p, *a] for p, a in zip(prompts, answers, strict=True)], scorer.tokenizer.pad_token_id, device)
    places = [
        (row, len(prompt) - 1 + depth)
        for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True))
        for depth in range(len(answer))
    ]
    hidden = getattr(causal, causal.base_model_prefix)(input_ids=ids, use_cache=False).last_hidden_state
    row_of, place_of = torch.tensor(places, device=device).T
    with torch.autocast(device.type, enabled=False):
        logits = Head.of(causal).logits(hidden[row_of, place_of])
    return logits, ids[row_of, place_of + 1]


def text_loss(
    model: nn.Module,
    scorer: ActionScorer,
    prompts: Sequence[Sequence[int]],
    options: Sequence[Sequence[str]],
    places: Sequence[int],
) -> Tensor:
    """Mean cross-entropy per token of every eighth row's answer, the option at its place, without constraint."""
    chosen = range(0, len(prompts), EVERY)
    answers = scorer.answer_ids([options[row][places[row]] for row in chosen])
    logits, tokens = answer_logits(model, scorer, [prompts[row] for row in chosen], answers)
    return nn.functional.cross_entropy(logits, tokens)
