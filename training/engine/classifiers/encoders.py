"""Sentence encoders: folders of sentence-transformers, or of a plain encoder whose token states are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from training.engine.classifiers.words import shorten
from training.engine.spec.base_files import find_encoder_fault

BATCH = 64
CHARACTERS_A_TOKEN = 4
"""About so many, in English: a longer text loses its middle before the encoder would drop its end."""


class BadEncoder(ValueError):
    """The folder holds no sentence encoder that can be used."""


class Embedder(Protocol):
    """What turns texts into vectors of `size` numbers, by whichever library."""

    @property
    def size(self) -> int: ...
    @property
    def parameters(self) -> int: ...
    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, size), each row of length 1."""
        ...


@dataclass(frozen=True, slots=True)
class Encoder:
    """`model` is a SentenceTransformer; `size` is the length of its vectors."""

    model: Any
    size: int

    @property
    def parameters(self) -> int:
        """How many it has."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, size), each row of length 1."""
        if not texts:
            return np.zeros((0, self.size), dtype=np.float32)
        longest = CHARACTERS_A_TOKEN * int(self.model.max_seq_length or 512)
        read = [shorten(text, longest) for text in texts]
        vectors = self.model.encode(read, batch_size=BATCH, show_progress_bar=False, normalize_embeddings=True)
        return np.asarray(vectors, dtype=np.float32)


def load_encoder(folder: Path, device: torch.device) -> Encoder:
    """Loads the folder. Raises BadEncoder.

    Nothing is fetched, unpickled or imported from the folder: weights are safetensors, and every module is
    sentence-transformers' own.
    """
    from sentence_transformers import SentenceTransformer

    if (fault := find_encoder_fault(folder)) is not None:
        raise BadEncoder(fault)
    try:
        model = SentenceTransformer(
            str(folder),
            device=str(device),
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        ).eval()
        size = int(model.encode(["size"], show_progress_bar=False).shape[1])
    except Exception as error:  # whatever a library finds wrong with a folder, of whichever class, is its fault
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise BadEncoder(f"{folder} is no sentence encoder: {reason}") from error
    return Encoder(model, size)
