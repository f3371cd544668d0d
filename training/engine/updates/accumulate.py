"""One update from more rows than fit into memory at once: gradients of its parts add up to that of the whole.

A loss that is a sum over an update's rows, divided by what is known of all of them, splits into shares:

    L = Σ_k share_k,    ∇L = Σ_k ∇ share_k

so parts of any size give the same update, up to rounding, and so do several processes
(training.engine.machine.processes), each of which takes a contiguous range of the rows. A part holds at most
`batch_size` rows, and half as many after the memory was full: then the update begins again, with the random draws that
it began with, so it is the one that a run with half the batch and twice the accumulation makes. What a group learns
from stays together, since a row is a prompt with all that was drawn for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from training.engine.attempt.attempt import Attempt
from training.engine.attempt.memory import free_memory, is_out_of_memory
from training.engine.updates.fit import Metrics, Updates, generator_states, restore_generators

ShareOf = Callable[[Sequence[int]], tuple[Tensor, Metrics]]
"""Of the rows at these places of the update: their share of the loss, and of each metric (0-d, detached)."""


class Accumulation:
    """Makes a run's updates. `part`: how many rows are calculated at once; it only shrinks."""

    def __init__(self, attempt: Attempt, updates: Updates) -> None:
        self.part = attempt.spec.optimiser.batch_size
        self._attempt = attempt
        self._updates = updates

    def update(self, count: int, share_of: ShareOf) -> Metrics:
        """One update from `count` rows; the metrics are the sums of their shares.

        Raises torch.OutOfMemoryError where one row alone is too much.
        """
        processes = self._attempt.processes
        places = processes.share(count)
        generators = generator_states()
        while True:
            try:
                metrics = self._gather(places, share_of)
            except RuntimeError as error:  # torch.OutOfMemoryError is one
                if not is_out_of_memory(error) or self.part == 1:
                    raise
            else:
                metrics = processes.add_metrics(metrics)
                processes.add_gradients(self._updates.parameters.values())
                self._updates.step()
                return metrics
            # Only here, without the error: its traceback holds the tensors that filled the memory.
            self._halve(len(places))
            restore_generators(generators)

    def _gather(self, places: range, share_of: ShareOf) -> Metrics:
        self._updates.clear()
        sums: dict[str, Tensor] = {}
        for start in range(places.start, places.stop, self.part):
            share, metrics = share_of(range(start, min(start + self.part, places.stop)))
            self._updates.backward(share)
            for name, value in metrics.items():
                sums[name] = sums[name] + value if name in sums else value
        return sums

    def _halve(self, count: int) -> None:
        before = min(self.part, count)
        self.part = max(1, before // 2)
        self._updates.clear()
        free_memory()
        self._attempt.events.warn(
            f"out of memory with {before} rows at once: from here on {self.part} at once, accumulated more times; "
            "the updates stay the same"
        )
