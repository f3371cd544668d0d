"""Keeps small gradients from vanishing where matrices are multiplied in float16: the loss is scaled before its backward
(Micikevicius et al. 2018, section 3.2). bfloat16 has the range of float32, and needs none of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

START, GROWS_AFTER = 2.0**16, 2000
"""A power of two, so that scaling rounds nothing; doubled after so many updates without an overflow."""


class LossScale:
    """What the loss is multiplied by. Halved when a gradient overflows, of which no update is made then."""

    def __init__(self) -> None:
        self.value = START
        self._good = 0

    def unscale(self, parameters: Sequence[nn.Parameter]) -> bool:
        """Divides the gradients in place. False where they have overflowed: the update is left out. At a scale of 1
        they are let pass, so that a run that diverges says so."""
        gradients: list[Tensor] = [one.grad for one in parameters if one.grad is not None]
        finite = all(bool(torch.isfinite(gradient).all()) for gradient in gradients)
        if not finite and self.value > 1.0:
            self.value, self._good = self.value / 2, 0
            return False
        for gradient in gradients:
            gradient.mul_(1.0 / self.value)
        self._good += 1
        if self._good >= GROWS_AFTER:
            self.value, self._good = 2 * self.value, 0
        return True

    def state(self) -> dict[str, float]:
        return {"value": self.value, "good": self._good}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.value, self._good = float(state["value"]), int(state["good"])
