"""What `samples.json` of an attempt holds: a few rows with what a model answered before the training and what it
answers now. No torch: training.engine.evaluation.watch writes it, the page of a run reads it."""

from __future__ import annotations

from typing import Literal

import msgspec

SAMPLES_FILE = "samples.json"


class Asked(msgspec.Struct, frozen=True):
    """A row that is shown, its texts cut. `system`: the system prompt before the prompt, null without one. `answer`:
    what is right, null where nobody knows; `action` and `reward`: what was logged."""

    id: str
    prompt: str
    answer: str | None = None
    action: str | None = None
    reward: float | None = None
    system: str | None = None


class Reply(msgspec.Struct, frozen=True):
    """`said`: the likeliest option, or the text that the model wrote, and its probability `p`. `right`: null where
    nobody knows. `wrote`: of options, what the model writes when it is not held to them. `valid`: whether that is an
    option, or the text JSON; null where nobody asks."""

    said: str
    p: float
    right: bool | None = None
    wrote: str | None = None
    valid: bool | None = None


class Look(msgspec.Struct, frozen=True):
    """What the weights after so many steps answered, in the order of the rows."""

    step: int
    replies: list[Reply]


class Samples(msgspec.Struct, frozen=True):
    """`rows` are held-out rows, or of those to learn from; `first` is by the weights before the training."""

    source: Literal["heldout", "train"]
    rows: list[Asked]
    first: Look
    newest: Look
