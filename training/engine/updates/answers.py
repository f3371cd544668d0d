"""A loss over answers as plain text, which keeps free generation valid while the constrained policy learns.

The other losses see π over the options only, so the probability that unconstrained generation starts and ends an option
could drift. Along the tokens of an answer, `text_share` raises the mass that p gives to what may follow there: to the
next token, or where the answer parts from other options, to all tokens that go on with one of them,

    − mean over tokens of log Σ_c p(c | x, y_<t),      c: the tokens that continue some option

with a gradient that is the same for each of them. So it says nothing about which option is right, and has no pull on π.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from training.engine.models.actions import ActionScorer, Head, causal_of, pad_right

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


def answer_log_p(
    model: nn.Module, scorer: ActionScorer, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]
) -> Tensor:
    """(B,) log p(y | x) of each whole answer y under the plain language model: the sum over its tokens."""
    logits, tokens = answer_logits(model, scorer, prompts, answers)
    losses = nn.functional.cross_entropy(logits, tokens, reduction="none")
    of_answer = torch.arange(len(answers)).repeat_interleave(torch.tensor([len(answer) for answer in answers]))
    return -losses.new_zeros(len(answers)).index_add(0, of_answer.to(losses.device), losses)


def branchings(
    scorer: ActionScorer,
    options: Sequence[Sequence[str]],
    texts: Sequence[str],
    answers: Sequence[Sequence[int]],
    vocabulary: int,
) -> tuple[Tensor, Tensor]:
    """Of all answer positions, row by row, those (N,) where other options part from the row's text; and the tokens that
    are allowed there, (N, V) of bool."""
    position, children, start = [], [], 0
    for row, text, answer in zip(options, texts, answers, strict=True):
        for depth, tokens in scorer.trie(row).branchings[sorted(row).index(text)]:
            position.append(start + depth)
            children.append(tokens)
        start += len(answer)
    allowed = torch.zeros(len(position), vocabulary, dtype=torch.bool, device=scorer.device)
    which = torch.tensor([i for i, tokens in enumerate(children) for _ in tokens], dtype=torch.long)
    allowed[which, torch.tensor([token for tokens in children for token in tokens], dtype=torch.long)] = True
    return torch.tensor(position, dtype=torch.long, device=scorer.device), allowed


def text_share(
    model: nn.Module,
    scorer: ActionScorer,
    prompts: Sequence[Sequence[int]],
    options: Sequence[Sequence[str]],
    places: Sequence[int],
    part: Sequence[int],
    count: int,
) -> Tensor:
    """Of every eighth row of an update, along its option at `places`: − log of the mass on what may follow, mean over
    tokens; the share of the rows that stand at the places `part` of its `count` (training.engine.updates.accumulate).

    Between parts the mean is over rows: nobody knows all answers before the last part has drawn its own.
    """
    chosen = [row for row, place in enumerate(part) if place % EVERY == 0]
    if not chosen:
        return torch.zeros((), device=scorer.device)
    offered = [options[row] for row in chosen]
    texts = [options[row][places[row]] for row in chosen]
    answers = scorer.answer_ids(texts)
    logits, tokens = answer_logits(model, scorer, [prompts[row] for row in chosen], answers)
    at, allowed = branchings(scorer, offered, texts, answers, logits.shape[1])
    own = nn.functional.one_hot(tokens, logits.shape[1]).bool().index_copy(0, at, allowed)
    return mass_loss(logits, own).mean() * len(chosen) / len(range(0, count, EVERY))


def mass_loss(logits: Tensor, allowed: Tensor) -> Tensor:
    """− log of the mass on the allowed tokens: (P, V), (P, V) of bool, at least one in a row → (P,).

    Its gradient is the same for each allowed token, so that it shifts them together, against all others. That of the
    plain mass would be larger for the likelier ones: it would have the policy believe more in what it believes.
    """
    within = logits.masked_fill(~allowed, float("-inf")).logsumexp(1)
    mean = (logits * allowed).sum(1) / allowed.sum(1)
    shifted = mean + (within - mean).detach()
    return torch.logaddexp(shifted, logits.masked_fill(allowed, float("-inf")).logsumexp(1)) - shifted
