"""Runtimes: what an exported model is loaded in to be compared. All on the CPU, in the precision of their weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from training.engine.models.loading import ADAPTER, attach_adapter, load_model, load_tokenizer

CPU = torch.device("cpu")
Logits = NDArray[np.float32]


class Runtime(Protocol):
    """`name` says which program in which version."""

    @property
    def name(self) -> str: ...

    def token_ids(self, text: str) -> list[int]:
        """Tokens of the text alone: control tokens that it spells out are read, none are added."""
        ...

    def logits(self, ids: Sequence[int]) -> Logits:
        """(len(ids), vocabulary) of what follows each token."""
        ...

    def unlike_reason(self, text: str) -> str | None:
        """Why the format has no way to give this text the tokens of the version; None where it has to."""
        ...


class TorchRuntime:
    """transformers, and peft where there is an adapter over the weights. The tokenizer is that of the folder
    `tokenizer`, by default of the weights'."""

    name = f"transformers {transformers.__version__}"

    def __init__(
        self, weights: str | Path, adapter: str | Path | None = None, tokenizer: str | Path | None = None
    ) -> None:
        model = load_model(weights, CPU, torch.float32)
        self._model = model if adapter is None else attach_adapter(model, adapter, ADAPTER)
        self.tokenizer = load_tokenizer(tokenizer or weights)

    @property
    def rows(self) -> int:
        """Of the embeddings: tokens from there on it cannot read."""
        return len(self._model.get_input_embeddings().weight)

    def token_ids(self, text: str) -> list[int]:
        return tokenise(self.tokenizer, text)

    def unlike_reason(self, text: str) -> str | None:
        return None

    @torch.inference_mode()
    def logits(self, ids: Sequence[int]) -> Logits:
        found: Logits = self._model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0].float().numpy()
        return found


def tokenise(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids
