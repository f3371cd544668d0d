"""Merged: whole weights as safetensors in float32, that transformers loads by itself.

peft merges in place, so the base is loaded again for it, in float32: a merge in bfloat16 would round every weight.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from training.engine.export.runtimes import CPU, TorchRuntime
from training.engine.models.loading import ADAPTER, Loaded, attach_adapter, load_model, load_tokenizer, save
from training.engine.spec.export_spec import ExportPlan
from training.engine.spec.run_spec import ModelSource


def merge(source: ModelSource) -> Loaded:
    """A plain model with the logits of base and adapter together: W + (α / r) · B A becomes the weight. Weights without
    an adapter are taken as they are."""
    model = load_model(str(source.path), CPU, torch.float32)
    if source.adapter is not None:
        model = attach_adapter(model, source.adapter, ADAPTER).merge_and_unload()
    return Loaded(model, load_tokenizer(str(source.path)))


def write(source: ModelSource, folder: Path, plan: ExportPlan) -> dict[str, Any]:
    save(merge(source), folder)
    return {}


def load(source: ModelSource, folder: Path, plan: ExportPlan) -> TorchRuntime:
    return TorchRuntime(folder)
