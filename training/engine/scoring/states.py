"""What a model makes of prompts, as numbers: features for a classifier on top."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from training.engine.attempt.attempt import Attempt
from training.engine.attempt.memory import score_in_batches
from training.engine.models.actions import ActionScorer, causal_of, pad_right
from training.engine.scoring.rows import BATCH


class _Reached(Exception):
    """Ends a forward where it has come far enough. `states` (B, T, H)."""

    def __init__(self, states: Tensor) -> None:
        self.states = states


def states_before(layer: nn.Module, backbone: nn.Module, ids: Tensor) -> Tensor:
    """ids (B, T) → (B, T, H): what goes into a layer of the backbone. That layer and those above it are not
    calculated."""

    def stop(_module: nn.Module, args: tuple[Tensor, ...]) -> None:
        raise _Reached(args[0])

    handle = layer.register_forward_pre_hook(stop)
    try:
        backbone(input_ids=ids, use_cache=False)
    except _Reached as reached:
        return reached.states
    finally:
        handle.remove()
    raise AssertionError("the layer is not the backbone's")


@torch.no_grad()
def read_states(
    attempt: Attempt,
    model: nn.Module,
    scorer: ActionScorer,
    prompts: Sequence[Sequence[int]],
    heads: Sequence[int],
) -> NDArray[np.float32]:
    """(n, H), rows of length 1: the middle layer's hidden states, their mean over a prompt's own tokens, standardised.

    The middle layers tell topics apart best; the last ones turn to the next token. `prompts` are token ids as of
    `scorer.encode`, `heads` how many of them stand before each one's own text. Leaves the model in eval mode. Raises
    Stopped between batches when asked to stop.
    """
    model.eval()
    causal = causal_of(model)
    backbone = getattr(causal, causal.base_model_prefix)
    count = causal.config.get_text_config().num_hidden_layers
    layers = next(part for part in backbone.modules() if isinstance(part, nn.ModuleList) and len(part) == count)
    end = scorer.prompts.tail
    found: list[Tensor | None] = [None] * len(prompts)

    def read(batch: list[int]) -> None:
        ids, lengths = pad_right([prompts[i] for i in batch], scorer.tokenizer.pad_token_id, attempt.device)
        with attempt.autocast(model):
            states = states_before(layers[count // 2], backbone, ids).float()
        places = torch.arange(ids.shape[1], device=attempt.device)[None]
        begin = torch.tensor([heads[i] for i in batch], device=attempt.device)[:, None]
        own = ((places >= begin) & (places < (lengths - end)[:, None])).float()[..., None]
        for row, mean in zip(batch, (states * own).sum(1) / own.sum(1).clamp(min=1), strict=True):
            found[row] = mean.cpu()

    score_in_batches(attempt, [len(ids) for ids in prompts], BATCH, read)
    states = torch.stack([one for one in found if one is not None])
    states = (states - states.mean(0)) / states.std(0).clamp(min=1e-6)
    return np.asarray(nn.functional.normalize(states, dim=1).numpy())
