"""How the next token of each row of a batch is drawn, and with which probability.

A row's policy is the model's distribution with the row's biases, held to what its constraint allows, at its temperature
and top_p. A draw depends on the row's own numbers and generator alone, whatever rows stand beside it. Called by
`generation`, and by `choices` for whole options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

COLD = 1e-3
"""Below it the likeliest token is taken: dividing by less leaves the range of floats."""
NO_TOKEN = -1


@dataclass(frozen=True, slots=True)
class Sampling:
    """`temperature` 0 takes the likeliest token; `top_p` is in (0, 1]; `bias` is added to single tokens' logits."""

    temperature: float = 1.0
    top_p: float = 1.0
    bias: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Drawn:
    """(B,) each, on the logits' device. `token` is NO_TOKEN where the logits are no numbers or allow nothing.

    `log_p`: the token's log-probability under the model itself; `policy_log_p`: under the row's policy, 0 when greedy.
    """

    token: Tensor
    log_p: Tensor
    policy_log_p: Tensor


def draw_batch(
    logits: Tensor, sampling: Sequence[Sampling], generators: Sequence[torch.Generator], allowed: Tensor | None = None
) -> Drawn:
    """One draw for each row of `logits` (B, V), float32. `allowed` (B, V) of bool holds rows to their constraints."""
    wanted = _with_bias(logits, sampling)
    if allowed is not None:
        wanted = wanted.masked_fill(~allowed, float("-inf"))
    broken = logits.isnan().any(1) | wanted.isneginf().all(1)
    greedy = torch.tensor([row.temperature < COLD for row in sampling], device=logits.device)
    token = wanted.argmax(1)
    policy_log_p = torch.zeros_like(wanted[:, 0])
    if not all(row.temperature < COLD for row in sampling):
        p = _policy(wanted, sampling)
        clocks = torch.ones_like(p)
        for row, settings in enumerate(sampling):
            if settings.temperature >= COLD:
                clocks[row].exponential_(generator=generators[row])
        # The first of independent exponential clocks. torch.multinomial does the same and, on a GPU, ends the process
        # where a weight is no number.
        raced = (p / clocks).argmax(1)
        token = torch.where(greedy, token, raced)
        log_p = (p.gather(1, raced[:, None])[:, 0] / p.sum(1)).log()
        policy_log_p = torch.where(greedy, policy_log_p, log_p)
    model_log_p = logits.gather(1, token[:, None])[:, 0] - logits.logsumexp(1)
    return Drawn(token.masked_fill(broken, NO_TOKEN), model_log_p, policy_log_p)


def _with_bias(logits: Tensor, sampling: Sequence[Sampling]) -> Tensor:
    if not any(row.bias for row in sampling):
        return logits
    wanted = logits.clone()
    for index, row in enumerate(sampling):
        for token, bias in row.bias:
            wanted[index, token] += bias
    return wanted


def _policy(logits: Tensor, sampling: Sequence[Sampling]) -> Tensor:
    """(B, V) of weights: the softmax at each row's temperature, without what lies outside of its nucleus: the fewest
    tokens holding `top_p` of the mass (Holtzman et al. 2020). The token that crosses the limit is kept.
    """
    temperature = torch.tensor([max(row.temperature, COLD) for row in sampling], device=logits.device)
    p = (logits / temperature[:, None]).softmax(1)
    cut = [index for index, row in enumerate(sampling) if row.top_p < 1 and row.temperature >= COLD]
    if cut:
        rows = torch.tensor(cut, device=logits.device)
        limit = torch.tensor([sampling[index].top_p for index in cut], device=logits.device)
        ordered, tokens = p[rows].sort(dim=1, descending=True)
        outside = ordered.cumsum(1) - ordered >= limit[:, None]
        p[rows] = torch.zeros_like(ordered).scatter(1, tokens, ordered.masked_fill(outside, 0.0))
    return p
