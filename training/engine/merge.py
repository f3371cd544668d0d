"""Merges an adapter into its base: W + (α / r) · B A becomes the weight. Method `merge`.

peft merges in place, so the base is loaded again for it, in float32: a merge in bfloat16 would round every weight.
"""

from __future__ import annotations

import torch

from training.engine.models import ADAPTER, Loaded, attach_adapter, load_model, load_tokenizer
from training.engine.spec import ModelSource


def merged(source: ModelSource, device: torch.device) -> Loaded:
    """A plain model with the logits of base and adapter together. `source` names both."""
    if source.path is None or source.adapter is None:
        raise ValueError("merging takes a base and an adapter")
    model = attach_adapter(load_model(source.path, device, torch.float32), source.adapter, ADAPTER)
    return Loaded(model.merge_and_unload(), load_tokenizer(source.path))
