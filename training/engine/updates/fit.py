"""The training loop that every method shares: steps, schedule, progress, checkpoints, stopping, resuming.

A method gives its loss or its whole step; this loop owns the optimiser. Whatever is random in a step is a pure function
of (seed, step), or drawn from torch's generators, whose states are in the checkpoint.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from training.engine.attempt.attempt import Attempt
from training.engine.attempt.checkpoints import write_checkpoint
from training.engine.spec.settings import Optimiser
from training.engine.updates.scaling import LossScale

Metrics = Mapping[str, Tensor]
LOSSES = "losses"
"""Of every step so far, in the checkpoint."""


class Updates:
    """AdamW under OneCycle (Smith and Topin 2019): 10 % warm-up, then a cosine down, gradients clipped.

    `precision`: what matrices are multiplied in; with float16 the loss is scaled."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        settings: Optimiser,
        total: int,
        precision: torch.dtype = torch.float32,
    ) -> None:
        if not parameters:
            raise ValueError("the model has no trainable parameters")
        self.parameters = dict(parameters)
        self.clip_norm = settings.clip_norm
        self.norm: Tensor | None = None
        self.scale = LossScale() if precision is torch.float16 else None
        self._list = list(parameters.values())
        self.optimiser = torch.optim.AdamW(
            self._list,
            lr=settings.learning_rate,
            betas=(0.9, 0.98),
            weight_decay=settings.weight_decay,
            fused=True,  # one pass over all tensors: ten times as fast on a CPU
        )
        # One step more than is taken: OneCycle refuses to be stepped past its end. A warm-up shorter than
        # two steps would be divided by its length of zero.
        warm_up = max(0.1, min(1.0, 2 / (total + 1)))
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimiser, max_lr=settings.learning_rate, total_steps=total + 1, pct_start=warm_up
        )

    def apply(self, loss: Tensor) -> None:
        """One optimiser update by a loss that fits into memory as a whole (else:
        training.engine.updates.accumulate)."""
        self.clear()
        self.backward(loss)
        self.step()

    def backward(self, loss: Tensor) -> None:
        """Adds the loss's gradients to those that are there."""
        scaled = loss if self.scale is None else loss * self.scale.value
        scaled.backward()  # type: ignore[no-untyped-call]

    def clear(self) -> None:
        """Forgets the gradients."""
        self.optimiser.zero_grad(set_to_none=True)

    def step(self) -> None:
        """One optimiser update by the gradients that have been gathered; none by those that have overflowed."""
        if self.scale is not None and not self.scale.unscale(self._list):
            return
        self.norm = torch.nn.utils.clip_grad_norm_(self._list, self.clip_norm)
        self.optimiser.step()
        self.schedule.step()

    def measure(self) -> dict[str, float]:
        """The next update's learning rate, and the length of the last gradient before it was clipped."""
        norm = {} if self.norm is None else {"grad_norm": float(self.norm)}
        return {"learning_rate": float(self.schedule.get_last_lr()[0]), **norm}

    def state(self) -> dict[str, Any]:
        return {
            "parameters": {name: parameter.detach() for name, parameter in self.parameters.items()},
            "optimiser": self.optimiser.state_dict(),
            "schedule": self.schedule.state_dict(),
            **({"scale": self.scale.state()} if self.scale is not None else {}),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(state["parameters"][name])
        self.optimiser.load_state_dict(state["optimiser"])
        self.schedule.load_state_dict(state["schedule"])
        if self.scale is not None and "scale" in state:
            self.scale.restore(state["scale"])


def fit(
    attempt: Attempt,
    updates: Updates,
    total_steps: int,
    take_step: Callable[[int], Metrics],
    message: str,
    kept: Mapping[str, Tensor] | None = None,
) -> dict[str, float]:
    """Takes steps 0 … total_steps − 1, or those left after the attempt's checkpoint; returns the last metrics.

    `take_step(step)` updates the weights through `updates` and returns 0-d tensors to report. `kept` are
    tensors worth a place in the checkpoint because they were dear to compute (see `kept_from`). A checkpoint
    is left every `checkpoint_every_seconds` (less often where that would take too long, see `pause_for`), at the end,
    and when asked to stop, which raises Stopped. Raises Diverged when a metric stops being a number.

    The result also has `loss_at_start` and `loss_at_end`: means over the first and the last tenth of all steps, those
    of earlier attempts among them.

    Every epoch takes as many steps; where the spec asks for it, the weights after each are kept (`save_epoch`).
    """
    step = 0
    epochs = attempt.spec.optimiser.epochs
    if attempt.resume is not None:
        updates.restore(attempt.resume.state["updates"])
        restore_generators(attempt.resume.state["generators"])
        step = attempt.resume.step
    before = kept_from(attempt, LOSSES)
    losses = list(before) if before is not None else []

    def leave_checkpoint() -> None:
        _finite(metrics, step)
        if not attempt.processes.is_main:
            return
        state = {
            "updates": updates.state(),
            "generators": generator_states(),
            "kept": {**(kept or {}), **_stack(losses)},
        }
        path = write_checkpoint(attempt.folder / "checkpoints", step, state, attempt.spec)
        attempt.events.write("checkpoint", step=step, path=str(path.relative_to(attempt.folder)))

    due = time.monotonic() + attempt.spec.checkpoint_every_seconds
    metrics: Metrics = {}
    attempt.events.progress(step, total_steps, message)
    while step < total_steps:
        if attempt.hear_stop():
            leave_checkpoint()
            attempt.stop.check(step)
        metrics = take_step(step)
        step += 1
        if "loss" in metrics:
            losses.append(metrics["loss"].detach())
        if attempt.save_epoch is not None and step * epochs % total_steps == 0:
            attempt.save_epoch(step * epochs // total_steps)
        if attempt.events.due() or step == total_steps:
            # Reading a metric waits for the device, so it is done here and not at every step.
            told = _finite(metrics, step)
            seen = attempt.watch.measure(step, last=step == total_steps) if attempt.watch is not None else {}
            attempt.events.metric(step, {**seen, **updates.measure(), **told})
            attempt.events.progress(step, total_steps, message)
        if (began := time.monotonic()) >= due:
            leave_checkpoint()
            taken = time.monotonic() - began
            due = began + taken + pause_for(taken, attempt.spec.checkpoint_every_seconds)
    if attempt.resume is None or attempt.resume.step < total_steps:
        leave_checkpoint()
    return _plain(metrics) | compare_ends(losses, total_steps)


def _stack(losses: Sequence[Tensor]) -> dict[str, Tensor]:
    return {LOSSES: torch.stack(list(losses))} if losses else {}


def compare_ends(losses: Sequence[Tensor], total_steps: int) -> dict[str, float]:
    """Means over the first and the last tenth; empty where the losses of some steps are unknown."""
    if not losses or len(losses) != total_steps:
        return {}
    told = torch.stack(list(losses)).float()
    tenth = math.ceil(total_steps / 10)
    return {"loss_at_start": float(told[:tenth].mean()), "loss_at_end": float(told[-tenth:].mean())}


def pause_for(taken: float, wanted: float) -> float:
    """Seconds until the next checkpoint after one that took `taken`: `wanted`, or nine times as long as it took.

    Checkpoints of a model with all its moments are gigabytes; they are to take a tenth of the time at most.
    """
    return max(wanted, 9 * taken)


def kept_from(attempt: Attempt, name: str) -> Tensor | None:
    """A tensor that an earlier attempt put into its checkpoint."""
    if attempt.resume is None:
        return None
    found: Tensor | None = attempt.resume.state["kept"].get(name)
    return found


class Diverged(ArithmeticError):
    """A metric is no longer a finite number; the weights are worthless."""


def _finite(metrics: Metrics, step: int) -> dict[str, float]:
    plain = _plain(metrics)
    lost = [name for name, value in plain.items() if not math.isfinite(value)]
    if lost:
        raise Diverged(f"{', '.join(lost)} not finite after step {step}: lower the learning rate")
    return plain


def _plain(metrics: Metrics) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}


def generator_states() -> dict[str, Tensor]:
    """Of everything that draws at random in a step."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def restore_generators(states: Mapping[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
