"""Several adapters in one batch: every row goes through the base, and through its own adapter or none.

peft runs the adapters of a batch one after the other, each over its own rows: hundreds of small operations for each
stack of layers, and as many waits for a GPU. Here the adapters' matrices are concatenated, so that a layer costs two
more products for any number of adapters. Used by the scorer and the chats.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from peft.tuners.lora import Linear
from torch import Tensor, nn

BASE = "__base__"
"""The name of no adapter, as peft has it."""


@contextlib.contextmanager
def adapters_by_row(model: nn.Module, adapter_names: Sequence[str] | None) -> Iterator[None]:
    """Gives row i of the forwards inside the adapter `adapter_names[i]`; BASE is none. None leaves all as it is.

    For plain LoRA on linear layers, without dropout; no gradient reaches the adapters. Raises KeyError for a name
    that is not loaded.
    """
    if adapter_names is None:
        yield
        return
    bank = _bank_of(model)
    bank.seen = bank.columns_of(adapter_names)
    try:
        yield
    finally:
        bank.seen = None


class _Bank:
    """Adapters side by side: y = W x + B (m ∘ A x), A (R, in), B (out, R), R the sum of their ranks.

    m is 1 in the columns of the row's own adapter and 0 elsewhere; the adapters' scales are in B. `seen` holds
    m (rows, 1, R) during a forward; without it the layers do what peft made them do.
    """

    def __init__(self, model: Any) -> None:
        self.names = tuple(model.peft_config)
        self.seen: Tensor | None = None
        layers: list[Any] = [module for module in model.modules() if isinstance(module, Linear)]
        self._device = layers[0].weight.device
        self._slots: dict[str, slice] = {}
        self._size = 0
        for name in self.names:
            rank = max(layer.lora_A[name].weight.shape[0] for layer in layers if name in layer.lora_A)
            self._slots[name] = slice(self._size, self._size + rank)
            self._size += rank
        for layer in layers:
            layer.forward = functools.partial(self._forward, layer, *self._stack(layer))

    def columns_of(self, adapter_names: Sequence[str]) -> Tensor:
        """m for a batch with these adapters, (rows, 1, R)."""
        columns = torch.zeros(len(adapter_names), 1, self._size)
        for row, name in enumerate(adapter_names):
            if name != BASE:
                columns[row, :, self._slots[name]] = 1.0
        return columns.to(self._device)

    def _stack(self, layer: Any) -> tuple[Tensor, Tensor]:
        """A (R, in) and B (out, R) in the layer's own precision; zeros where an adapter leaves the layer alone."""
        with torch.inference_mode(False), torch.no_grad():
            a = torch.zeros(self._size, layer.in_features, device=layer.weight.device)
            b = torch.zeros(layer.out_features, self._size, device=layer.weight.device)
            for name, slot in self._slots.items():
                if name in layer.lora_A:
                    columns = slice(slot.start, slot.start + layer.lora_A[name].weight.shape[0])
                    a[columns] = layer.lora_A[name].weight
                    b[:, columns] = layer.lora_B[name].weight * layer.scaling[name]
            return a.to(layer.weight.dtype), b.to(layer.weight.dtype)

    def _forward(self, layer: Any, a: Tensor, b: Tensor, x: Tensor, *arguments: Any, **named: Any) -> Any:
        if self.seen is None:
            return Linear.forward(layer, x, *arguments, **named)
        y: Tensor = layer.base_layer(x)
        seen = self.seen.to(x.dtype)
        if x.ndim == 2:  # OPT puts the tokens of all rows one after the other: (rows · T, in)
            seen = seen[:, 0].repeat_interleave(len(x) // len(seen), 0)
        inner = nn.functional.linear(x, a) * seen
        return torch.addmm(y.flatten(0, -2), inner.flatten(0, -2), b.T).view_as(y)


def _bank_of(model: Any) -> _Bank:
    """The model's bank, made anew when other adapters are loaded than before. A name's weights never change."""
    bank: _Bank | None = getattr(model, "adapter_bank", None)
    if bank is None or bank.names != tuple(model.peft_config):
        bank = model.adapter_bank = _Bank(model)
    return bank
