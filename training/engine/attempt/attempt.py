"""One attempt at a run: its folder, spec, device, events and stop flag, passed to the code that does the work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import torch
from torch import nn

from training.engine.attempt.checkpoints import Checkpoint
from training.engine.attempt.events import Events
from training.engine.attempt.stop import StopFlag
from training.engine.environments.outside import OutsideAgent
from training.engine.machine.hardware import autocast, choose_precision
from training.engine.machine.processes import Processes
from training.engine.models.actions import hidden_size
from training.engine.spec.result import AlarmRaised
from training.engine.spec.run_spec import RunSpec


class Watching(Protocol):
    """Looks at the model between updates (training.engine.evaluation.watch)."""

    def measure(self, step: int, *, last: bool = False) -> dict[str, float]: ...


@dataclass(slots=True)
class Attempt:
    """`resume` is the checkpoint to go on from; `folder` is attempts/<number>, which this process owns. `save_epoch`
    keeps the weights after the epoch of that number; None where nobody asked for it. `processes` train it together.
    `watch` looks at what the model answers meanwhile; None where nobody looks. `halved`: how often the training began
    again, with half as many rows at once (training.engine.text.parts)."""

    spec: RunSpec
    number: int
    folder: Path
    device: torch.device
    events: Events
    stop: StopFlag
    resume: Checkpoint | None = None
    save_epoch: Callable[[int], None] | None = None
    processes: Processes = field(default_factory=Processes)
    watch: Watching | None = None
    halved: int = 0
    agent: OutsideAgent | None = None
    """Who acts on the tasks in the place of the scorer."""

    def hear_stop(self) -> bool:
        """Whether any process of the run was asked to stop. All of them ask at the same steps."""
        (asked,) = self.processes.any(self.stop.reason is not None)
        if asked:
            self.stop.request("requested by another process")
        return asked

    def autocast(self, model: nn.Module) -> AbstractContextManager[object]:
        """Runs the model's matrix products in the spec's precision, or in that which suits the device."""
        return autocast(self.device, self.precision_of(model))

    def precision_of(self, model: nn.Module) -> torch.dtype:
        kind = str(getattr(model.config, "model_type", ""))  # of peft's wrapper, too
        return choose_precision(self.device, hidden_size(model), self.spec.precision, kind)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a training method did: optimiser steps, rows it learned from, and its last metrics. `save_beside(folder)`
    writes what it made beside the weights, if anything. `alarm`: what stopped it before its time. `rewards`, in [0, 1]:
    of the episodes that it learnt from."""

    steps: int
    rows: int
    metrics: dict[str, float] = field(default_factory=dict)
    save_beside: Callable[[Path], None] | None = None
    alarm: AlarmRaised | None = None
    rewards: Sequence[float] = ()

    def also(self, **metrics: float) -> Outcome:
        """The same, with what the method has measured besides."""
        return replace(self, metrics=self.metrics | metrics)
