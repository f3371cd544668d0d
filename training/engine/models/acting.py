"""The hash of the weights that act, which every trajectory carries.

Of a whole model it is SHA-256 over its tensors, which is the `weights_sha256` of the run that saved them. Of an adapter
it is `combine_hashes` of the base's hash and the adapter's own. What lies in a folder is hashed as it is stored there,
once; what is trained as it is in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from peft import get_peft_model_state_dict
from torch import Tensor

from training.engine.models.loading import ADAPTER, Loaded, hash_tensors, weights_sha256


def combine_hashes(base: str, adapter: str) -> str:
    """SHA-256 of "base+adapter", both in hexadecimal: what acts where an adapter lies over a base."""
    return hashlib.sha256(f"{base}+{adapter}".encode()).hexdigest()


def hash_saved(loaded: Loaded) -> str:
    """What acts with a model that was loaded to answer and does not change."""
    base = _hash_base(loaded)
    source = loaded.source
    if not loaded.adapts:
        return base
    stored = _hash_folder(source.adapter) if source is not None and source.adapter is not None else None
    return combine_hashes(base, stored or hash_tensors(_find_adapter(loaded.model)))


class ActingHash:
    """What acts with a model in training, as it is now."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._base = _hash_base(loaded) if loaded.adapts else ""

    def find(self) -> str:
        """Hashes what is trained anew each time, at half a gigabyte a second: torch's own count of writes to a tensor
        misses those of fused optimisers."""
        model = self._loaded.model
        if not self._loaded.adapts:
            return hash_tensors(dict(model.named_parameters()))
        return combine_hashes(self._base, hash_tensors(_find_adapter(model)))


def find_acting_hash(loaded: Loaded, output: str, folder: Path) -> str:
    """What acts with a run's output that is saved in the folder: a whole model, or an adapter over `loaded`'s base."""
    saved = weights_sha256(folder)
    return combine_hashes(_hash_base(loaded), saved) if output == "adapter" else saved


def _find_adapter(model: Any) -> Mapping[str, Tensor]:
    """By the names that peft saves them under."""
    found: Mapping[str, Tensor] = get_peft_model_state_dict(model, adapter_name=ADAPTER, save_embedding_layers=False)
    return found


def _hash_base(loaded: Loaded) -> str:
    """Of all that is no adapter: as it is stored, or in memory where it lies in no folder, such as one of the hub."""
    source = loaded.source
    stored = _hash_folder(source.path) if source is not None and source.path is not None else None
    if stored is not None:
        return stored
    model = loaded.model.get_base_model() if loaded.adapts else loaded.model
    named = ((name, one) for name, one in model.named_parameters() if f".{ADAPTER}." not in name)
    return hash_tensors({name.replace(".base_layer.", "."): one for name, one in named})


def _hash_folder(folder: str) -> str | None:
    """None where the folder is not here, or holds no safetensors."""
    files = sorted(Path(folder).glob("*.safetensors"))
    if not files:
        return None
    return _hash_files(folder, tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files))


@lru_cache(maxsize=8)
def _hash_files(folder: str, files: tuple[tuple[str, int, int], ...]) -> str:
    """`files`: their names, sizes and times, which change where the weights do."""
    return weights_sha256(Path(folder))
