"""The processes that train one run together, each on its own device (training.engine.machine.launch).

All read the same spec, rows and checkpoints, so on several hosts the run's folder is shared. An update's rows are split
between them and their gradients added up (training.engine.updates.accumulate), so the spec means the same for any
number of them. The main one, of rank 0, alone writes: events, checkpoints, the model; it alone evaluates. Every
collective call is made by all of them at the same place of the work.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn

from training.engine.machine.launch import count_processes


@dataclass(frozen=True, slots=True)
class Processes:
    """This process's `rank` in [0, `count`)."""

    rank: int = 0
    count: int = 1

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def share(self, rows: int) -> range:
        """The places of an update's `rows` that are this process's; none where there are more processes than rows."""
        return range(self.rank * rows // self.count, (self.rank + 1) * rows // self.count)

    def any(self, *flags: bool) -> list[bool]:
        """Of each flag, whether it is set in any process."""
        if self.count == 1:
            return list(flags)
        summed = self.add(torch.tensor(flags, dtype=torch.int32))
        return [value > 0 for value in summed.tolist()]

    def add(self, value: Tensor) -> Tensor:
        """Its sum over all processes, in place."""
        if self.count > 1:
            distributed.all_reduce(value)
        return value

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Every process has the sum from now on. What got no gradient anywhere stays without."""
        if self.count == 1:
            return
        known = list(parameters)
        anywhere = self.any(*(one.grad is not None for one in known))
        trained = [one for one, has in zip(known, anywhere, strict=True) if has]
        gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in trained]
        summed = self.add(torch.cat([gradient.flatten() for gradient in gradients]))
        parts = summed.split([one.numel() for one in trained])  # type: ignore[no-untyped-call]
        for one, part in zip(trained, parts, strict=True):
            one.grad = part.view_as(one)

    def add_metrics(self, metrics: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The sum of each over the processes that know it; 0-d tensors."""
        if self.count == 1:
            return metrics
        told: list[dict[str, float]] = [{} for _ in range(self.count)]
        distributed.all_gather_object(told, {name: float(value) for name, value in metrics.items()})
        names = dict.fromkeys(name for of_one in told for name in of_one)
        return {name: torch.tensor(sum(of_one.get(name, 0.0) for of_one in told)) for name in names}

    def from_main(self, value: Any) -> Any:
        """What the main process gave here."""
        if self.count == 1:
            return value
        told = [value]
        distributed.broadcast_object_list(told)
        return told[0]

    def gather(self, values: Sequence[Any]) -> list[Any]:
        """The values of all processes, by rank."""
        if self.count == 1:
            return list(values)
        told: list[Sequence[Any]] = [()] * self.count
        distributed.all_gather_object(told, values)
        return [value for of_one in told for value in of_one]

    def wait(self) -> None:
        """Until all are here."""
        if self.count > 1:
            distributed.barrier()


def join_processes() -> Processes:
    """This process among those that were launched with it; alone where it was started by itself."""
    count = count_processes(os.environ)
    if count == 1:
        return Processes()
    if not distributed.is_initialized():
        # What they agree upon lies in the computer's memory, gradients may lie on a GPU.
        distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    return Processes(distributed.get_rank(), count)
