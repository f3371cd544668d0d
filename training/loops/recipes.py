"""Training settings of the loops, as fields of the engine's spec. PURE. Measured in docs/results.md.

The tiny model is trained from scratch in full; a real base gets a gentler training and then an adapter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from training.loops.labelled import Example

TINY = "tiny"
SHORTEST_PROMPT, LONGEST_PROMPT = 40, 160
TOKENS_PER_WORD = 1.6
PASSES = 3
FREE_ROWS = 300


def prompt_tokens(examples: Sequence[Example]) -> int:
    """Room for nineteen texts in twenty, in tokens; what is longer is cut."""
    words = sorted(len(example.text.split()) for example in examples)
    enough = words[min(len(words) - 1, int(0.95 * len(words)))] * TOKENS_PER_WORD
    return max(SHORTEST_PROMPT, min(LONGEST_PROMPT, 8 * math.ceil(enough / 8)))


def base_settings(base_model: str, rows: int) -> Mapping[str, Any]:
    """Teaching the base from `rows` seed labels: enough passes for some hundred steps, however few there are."""
    if base_model == TINY:
        passes = max(8, min(40, math.ceil(6000 / rows)))
        return {"optimiser": {"learning_rate": 3e-3, "epochs": passes}}
    return {"optimiser": {"learning_rate": 2e-5, "epochs": 1, "batch_size": 16}}


def round_settings(base_model: str, rows: int) -> Mapping[str, Any]:
    """Training on the log so far, from the base. Fewer rows are passed over more often."""
    passes = PASSES * (4 if rows < 1500 else 2 if rows < 4000 else 1)
    if base_model == TINY:
        return {"optimiser": {"learning_rate": 2e-3, "epochs": passes}}
    lora = {"r": 16, "alpha": 32}
    return {"lora": lora, "optimiser": {"learning_rate": 2e-4, "epochs": passes, "batch_size": 16}}


def ceiling_settings(base_model: str, rows: int) -> Mapping[str, Any]:
    """The last round's training with every label known: the same model, passes and losses, and all rows."""
    same = dict(round_settings(base_model, rows))
    same.pop("lora", None)  # labelled training is in full
    return {**same, "pretrain": {"calibration_share": 0.0}, "text_weight": 0.3}


def for_tiny(settings: Mapping[str, Any], base_model: str, **optimiser: float) -> Mapping[str, Any]:
    """The same, with the tiny model's optimiser changed where a loop has measured something better for its texts."""
    return {**settings, "optimiser": {**settings["optimiser"], **optimiser}} if base_model == TINY else settings
