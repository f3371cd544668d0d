"""Calibration: one temperature, fitted on rows that were kept back, goes into the model's own weights.

Guo et al. 2017, "On Calibration of Modern Neural Networks". Logits divided by T everywhere leave every reader of the
weights (scorer, free generation, export) equally sure, so nobody has to know of T. Called after `pretrain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from training.engine.attempt.attempt import Attempt
from training.engine.attempt.memory import score_in_batches
from training.engine.models.actions import ActionScorer, causal_of
from training.engine.rows.types import Labelled, prompts_of

TEMPERATURES = torch.logspace(-1, 1, 81).tolist()
EXACT = 1e-3
"""Largest difference of a log-probability between what was fitted and what the changed weights give."""


@torch.no_grad()
def calibrate(attempt: Attempt, model: nn.Module, scorer: ActionScorer, held: Sequence[Labelled]) -> float:
    """Divides the logits by the best temperature on `held`; returns it, or 1 where the weights have no place for it."""
    if not held:
        attempt.events.warn("too few labelled rows to calibrate on")
        return 1.0
    prompts = scorer.encode(prompts_of(held))
    losses = torch.zeros(len(TEMPERATURES), device=attempt.device)

    def score(batch: list[int]) -> None:
        options = [held[i].options for i in batch]
        right = torch.tensor([held[i].options.index(held[i].answer) for i in batch], device=attempt.device)
        states = scorer.states(model, [prompts[i] for i in batch], options)
        read = [scorer.read(model, states, options, temperature) for temperature in TEMPERATURES]
        losses.add_(torch.stack([nn.functional.nll_loss(log_p, right, reduction="sum") for log_p in read]))

    score_in_batches(attempt, [len(ids) for ids in prompts], attempt.spec.optimiser.batch_size, score)
    best = float(TEMPERATURES[int(losses.argmin())])
    sample = prompts[:8], [row.options for row in held[:8]]
    wanted = scorer.read(model, scorer.states(model, *sample), sample[1], best)
    if not scale_logits(causal_of(model), 1 / best):
        attempt.events.warn(
            "not calibrated: its final norm has no weights, and its output layer shares those of the embeddings"
        )
        return 1.0
    if (scorer.log_probabilities(model, *sample) - wanted).abs().max() > EXACT:
        scale_logits(causal_of(model), best)
        attempt.events.warn("not calibrated: its logits do not follow its final norm")
        return 1.0
    return best


@torch.no_grad()
def scale_logits(causal: Any, factor: float) -> bool:
    """Multiplies every logit by `factor` (> 0) through the weights: in the final norm, or else in the output layer.

    Returns False, and changes nothing, where there is no such place: a final norm without weights before an output
    layer that is tied to the embeddings, which the first layer reads as well. A bias of the output layer is multiplied
    too, and so is a soft cap, for f · c · tanh(z / c) = c' · tanh(z' / c') with c' = f · c and z' = f · z.
    """
    layer, config = causal.get_output_embeddings(), causal.config
    norm = _final_norm(causal)
    if norm is None or not _scale_norm(norm, factor):
        if layer.weight is causal.get_input_embeddings().weight:
            return False
        layer.weight.mul_(factor)
    if getattr(layer, "bias", None) is not None:
        layer.bias.mul_(factor)
    if getattr(config, "final_logit_softcapping", None) is not None:
        config.final_logit_softcapping *= factor
    return True


def _final_norm(causal: Any) -> Any:
    """The layer with one weight a feature whose output is the last hidden state, whatever its name is; None without."""
    backbone = getattr(causal, causal.base_model_prefix)
    called: list[tuple[nn.Module, Tensor]] = []

    def note(layer: nn.Module, _: object, output: Tensor) -> None:
        called.append((layer, output))

    layers = [layer for layer in backbone.modules() if getattr(getattr(layer, "weight", None), "ndim", 0) == 1]
    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        token = torch.zeros(1, 1, dtype=torch.long, device=causal.device)
        state = backbone(input_ids=token, use_cache=False).last_hidden_state
    finally:
        for hook in hooks:
            hook.remove()
    # Some models give the state another shape afterwards, over the same memory.
    return next((layer for layer, output in reversed(called) if output.data_ptr() == state.data_ptr()), None)


def _scale_norm(norm: Any, factor: float) -> bool:
    """Multiplies what a norm gives: w · f for most, (1 + w) · f − 1 where it adds 1 to its weight (Gemma).

    Tells them apart by what they do to random states. Returns False, and changes nothing, for another kind.
    """
    weight, bias = norm.weight, getattr(norm, "bias", None)
    before: list[Tensor] = [weight.clone(), *([] if bias is None else [bias.clone()])]
    states = torch.randn(4, len(weight), generator=torch.Generator().manual_seed(0)).to(weight)
    wanted = norm(states) * factor
    if bias is not None:
        bias.mul_(factor)
    for scaled in (before[0] * factor, (1 + before[0]) * factor - 1):
        weight.copy_(scaled)
        if torch.allclose(norm(states), wanted, rtol=1e-4, atol=1e-6):
            return True
    weight.copy_(before[0])
    if bias is not None:
        bias.copy_(before[1])
    return False
