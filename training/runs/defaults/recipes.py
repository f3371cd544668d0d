"""Training settings of the loops, as fields of the engine's spec. PURE. Measured in docs/results.md.

The tiny model is trained from scratch; a pretrained one gently, with its embeddings kept but for those of options
that become tokens, or by an adapter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from training.rows.labelled_texts import Example
from training.runs.estimates.needs import TOKENS_PER_WORD

TINY = "tiny"
SHORTEST_PROMPT, LONGEST_PROMPT = 40, 160
PASSES = 3
REAL_PASSES = 3
FREE_ROWS = 300
WHOLE: Mapping[str, Any] = {"freeze_embeddings": True, "option_tokens": True}
"""Every weight of a pretrained model but its embeddings."""


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
    return {**WHOLE, "optimiser": {"learning_rate": 5e-5, "epochs": 3, "batch_size": 16}}


def round_settings(base_model: str, rows: int, *, lora: bool = True, last: bool = True) -> Mapping[str, Any]:
    """Training on the log so far. The tiny base passes more often over fewer rows, each round from the start. A real
    one goes on from the round before, so one pass is enough until the `last`; with `lora` an adapter is trained, else
    every weight but the embeddings."""
    if base_model == TINY:
        passes = PASSES * (4 if rows < 1500 else 2 if rows < 4000 else 1)
        return {"optimiser": {"learning_rate": 2e-3, "epochs": passes}}
    steps = {"epochs": REAL_PASSES if last else 1, "batch_size": 16}
    if lora:
        return {"lora": {"r": 16, "alpha": 32}, "optimiser": {"learning_rate": 2e-4, **steps}}
    return {**WHOLE, "optimiser": {"learning_rate": 3e-5, **steps}}


def goes_on(base_model: str) -> bool:
    """Whether a round goes on from what the round before has trained; else from the base, and learns the log anew."""
    return base_model != TINY


def ceiling_settings(base_model: str, rows: int) -> Mapping[str, Any]:
    """The last round's training with every label known: the same model, passes and losses, and all rows."""
    same = round_settings(base_model, rows, lora=False)  # labelled training is in full
    return {**same, "pretrain": {"calibration_share": 0.0}, "text_weight": 0.3}


def for_tiny(settings: Mapping[str, Any], base_model: str, **optimiser: float) -> Mapping[str, Any]:
    """The same, with the tiny model's optimiser changed where a loop has measured something better for its texts."""
    return {**settings, "optimiser": {**settings["optimiser"], **optimiser}} if base_model == TINY else settings
