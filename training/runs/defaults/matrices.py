"""The adapter of a recipe, on matrices that the base has: a recipe is for any base, and not every base has all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from training.engine.spec.architectures import TARGETS, choose_targets, read_model_type
from training.runs.hub_configs import find_model_files


def adapt_usable_matrices(settings: Mapping[str, Any], base: str) -> Mapping[str, Any]:
    """The settings with `lora.targets` that fit the architecture of the base, a folder or a hub id; as they are without
    an adapter, and where nothing is known of the base."""
    folder = find_model_files(base).folder if base and settings.get("lora") is not None else None
    targets = choose_targets(read_model_type(folder)) if folder is not None else TARGETS[0]
    if targets == TARGETS[0]:
        return settings
    return {**settings, "lora": {**settings["lora"], "targets": targets}}
