"""The hash of what acts: of all weights, the base's too, and the one that the version of these weights has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.training.engine.engine_world import World

pytestmark = pytest.mark.slow


def load(base: Path, *, lora: bool) -> Any:
    import torch

    from training.engine.models.loading import load_for_training
    from training.engine.spec.run_spec import ModelSource
    from training.engine.spec.settings import Lora

    source = ModelSource(path=str(base))
    return load_for_training(source, Lora(r=2) if lora else None, torch.device("cpu"))


def reverse(tensor: Any) -> None:
    import torch

    with torch.no_grad():
        tensor.copy_(tensor.flip(0))


def test_a_reversed_tensor_is_another_model(world: World) -> None:
    import torch

    from training.engine.models.acting import ActingHash
    from training.engine.models.loading import weights_sha256

    loaded = load(world.base, lora=False)
    acting = ActingHash(loaded)
    assert acting.find() == weights_sha256(world.base)
    norm = loaded.model.model.norm.weight
    with torch.no_grad():
        norm[0] += 1.0
    before = acting.find()
    reverse(norm)
    assert acting.find() != before


def test_an_adapter_acts_with_its_base_and_both_are_in_the_hash(world: World, tmp_path: Path) -> None:
    import torch

    from training.engine.models.acting import ActingHash, combine_hashes, find_acting_hash, hash_saved
    from training.engine.models.loading import load_source, save, weights_sha256
    from training.engine.spec.run_spec import ModelSource

    loaded = load(world.base, lora=True)
    acting = ActingHash(loaded)
    first = acting.find()
    with torch.no_grad():
        next(value for name, value in loaded.model.named_parameters() if "lora_B" in name).add_(1.0)
    assert acting.find() != first
    save(loaded, tmp_path / "adapter")
    stored = combine_hashes(weights_sha256(world.base), weights_sha256(tmp_path / "adapter"))
    assert find_acting_hash(loaded, "adapter", tmp_path / "adapter") == acting.find() == stored
    again = load_source(ModelSource(path=str(world.base), adapter=str(tmp_path / "adapter")), torch.device("cpu"))
    assert hash_saved(again) == stored
    # The same adapter over another base is another model.
    other = load(world.base, lora=False)
    reverse(other.model.model.embed_tokens.weight)
    save(other, tmp_path / "other")
    moved = load_source(
        ModelSource(path=str(tmp_path / "other"), adapter=str(tmp_path / "adapter")), torch.device("cpu")
    )
    assert hash_saved(moved) != stored
    # Where the base lies in no folder, its tensors in memory have the same hash.
    loaded_from_memory = type(loaded)(loaded.model, loaded.tokenizer)
    assert ActingHash(loaded_from_memory).find() == stored
